"""What is kept of an exception: bounded, and safe to store whatever it holds."""

import logging
import traceback
from types import TracebackType

from echomq_django.bus.row import Failure

_MESSAGE, _TRACEBACK = 2_000, 12_000  # characters; the server takes up to 16 KiB of it at its memory limit


def describe(reason: str, error: BaseException) -> Failure:
    """Return the failure that stands behind a row; long texts are cut in the middle, with a note."""
    kind = type(error)
    frames = traceback.format_exception(kind, error, _from_handler_on(error.__traceback__), limit=-30)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return Failure(reason, name, _cut(_text(error), _MESSAGE), _cut("".join(frames), _TRACEBACK))


def log_error(logger: logging.Logger, text: str, error: BaseException, failure: Failure) -> None:
    """Log an error: with its exception for whoever collects those, and printed in the bounds of its `failure`."""
    if logger.isEnabledFor(logging.ERROR):
        exc_info = (type(error), error, error.__traceback__)
        file, line, function, _ = logger.findCaller(stacklevel=2)
        record = logger.makeRecord(logger.name, logging.ERROR, file, line, text, (), exc_info, function)
        record.exc_text = failure.traceback.encode(errors="backslashreplace").decode()
        logger.handle(record)


def without_locals(error: BaseException) -> BaseException:
    """Return a caught error after freeing what its frames and those of its causes hold.

    They refer to the job, which keeps the error: only the garbage collector would free them, some day.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)  # without the frame that caught it


def _from_handler_on(frames: TracebackType | None) -> TracebackType | None:
    first = frames
    while first is not None and first.tb_frame.f_globals.get("__name__", "").startswith(__package__):
        first = first.tb_next
    return first or frames


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:  # whatever it raises, it is not meant for the thread that asks
        return f"(its text can't be had: {type(second).__name__})"


def _cut(text: str, most: int) -> str:
    # Counted in what will be stored: characters outside ASCII take more bytes.
    if len(text.encode(errors="backslashreplace")) <= most:
        return text
    head, tail = text[: most // 8], text[-most // 2 :]
    while len((head + tail).encode(errors="backslashreplace")) > most:
        head, tail = head[: len(head) // 2], tail[len(tail) // 2 :]
    return f"{head}\n... {len(text) - len(head) - len(tail):,} characters are left out ...\n{tail}"
