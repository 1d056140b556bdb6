"""The options of the setting that is measured, in the environments of other queues."""

import json
import os
from typing import Any

OPTIONS: dict[str, Any] = json.loads(os.environ["EMQ_BENCH_OPTIONS"])
