"""Fingerprints of errors: the same mistake with another order number or user is one group."""

import re
from hashlib import blake2b

_FRAME = re.compile(r'^ *File "(?P<path>[^"\n]*)", line \d+, in (?P<function>.*)$', re.MULTILINE)
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen")
_VARIABLE = re.compile(
    r"""(?<!\w)(?:'[^'\n]*'|"[^"\n]*")(?!\w)|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+|\d+""", re.I
)


def fingerprint(error_class: str, message: str, traceback: str) -> str:
    """Return 12 hex digits of the class, the innermost frame of the project and the message without its values."""
    parts = (error_class, _top_frame(traceback), _VARIABLE.sub("?", message))
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def _top_frame(traceback: str) -> str:
    frames = list(_FRAME.finditer(traceback))
    own = [frame for frame in frames if not _LIBRARY.search(frame["path"])] or frames
    if not own:
        return ""
    # Releases are often unpacked into a new folder, and lines move: neither makes another error.
    return "/".join(own[-1]["path"].split("/")[-2:]) + ":" + own[-1]["function"]
