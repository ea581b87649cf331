"""The file system of a file. SQLite's write-ahead log and shared memory need a local file system."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs"})
_NETWORK |= {"nfs", "nfs4", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs"}
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.ntfs-3g"})


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the kind of network file system that `path` is on, or None if it is local or unknown.

    `mounts` is the text of mountinfo (proc(5)), by default of this process.
    """
    if mounts is None:
        if not _MOUNTS.exists():
            return None
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    kind = _kind_at(path.resolve(), mounts)
    fuse = kind.startswith("fuse") and kind not in _LOCAL_FUSE
    return kind if fuse or kind in _NETWORK else None


def _kind_at(path: Path, mounts: str) -> str:
    """Return the kind of file system of the deepest mount above `path`; of equal mounts, the last one."""
    found, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= found:
            found, kind = len(point.parts), after.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    """Return the text with its octal escapes (spaces, tabs, backslashes) decoded."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
