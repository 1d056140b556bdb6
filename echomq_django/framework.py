"""Django's Tasks framework, where this Django has it: `django.tasks` since 6.0, the package `django_tasks` on 5.2."""

from types import GenericAlias
from typing import TYPE_CHECKING

import django
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from django.tasks import Task as BaseTask
    from django.tasks import TaskContext as BaseTaskContext
    from django.tasks import TaskResult as BaseTaskResult

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import (
        DEFAULT_TASK_BACKEND_ALIAS,
        DEFAULT_TASK_QUEUE_NAME,
        Task,
        TaskContext,
        TaskResult,
        TaskResultStatus,
        task_backends,
    )
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import DEFAULT_TASK_PRIORITY, TaskError
    from django.tasks.exceptions import InvalidTask, TaskException, TaskResultDoesNotExist, TaskResultMismatch
    from django.tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django.tasks.signals import logger as framework_logger
else:
    try:
        from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, TaskResultStatus, task_backends
    except ImportError as error:
        raise ImproperlyConfigured(
            "Django 5.2 has no Tasks framework of its own: install django-tasks (pip install 'echomq-django[tasks]') "
            "and add 'django_tasks' to INSTALLED_APPS."
        ) from error
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import DEFAULT_TASK_PRIORITY, Task, TaskContext, TaskError, TaskResult
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskException, TaskResultDoesNotExist, TaskResultMismatch
    from django_tasks.signals import (
        log_task_enqueued,
        log_task_finished,
        log_task_started,
        task_enqueued,
        task_finished,
        task_started,
    )
    from django_tasks.signals import logger as framework_logger

if not TYPE_CHECKING:
    # The type stubs have these three generic in [P, R]; at run time each Django has it differently.

    class BaseTask(Task):
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    class BaseTaskResult(TaskResult):
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    class BaseTaskContext(TaskContext):
        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)


__all__ = [
    "DEFAULT_TASK_BACKEND_ALIAS",
    "DEFAULT_TASK_PRIORITY",
    "DEFAULT_TASK_QUEUE_NAME",
    "BaseTask",
    "BaseTaskBackend",
    "BaseTaskContext",
    "BaseTaskResult",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskException",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "framework_logger",
    "log_task_enqueued",
    "log_task_finished",
    "log_task_started",
    "task_backends",
    "task_enqueued",
    "task_finished",
    "task_started",
]
