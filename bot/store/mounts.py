"""Which file system a file lies on. SQLite's log and its shared memory need one of this machine's own."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs"})
_NETWORK |= {"nfs", "nfs4", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs"}
_LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.mergerfs", "fuse.ntfs-3g"})


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the kind of network file system that `path` is on; None on a local disk or where unknown.

    `mounts` is what Linux says of its mounts (proc(5), mountinfo); of this process where left out.
    """
    if mounts is None:
        if not _MOUNTS.exists():
            return None
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    kind = _kind_at(path.resolve(), mounts)
    fuse = kind.startswith("fuse") and kind not in _LOCAL_FUSE
    return kind if fuse or kind in _NETWORK else None


def _kind_at(path: Path, mounts: str) -> str:
    """Return the kind of file system at the deepest mount above `path`; the last of several."""
    found, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(_unescaped(before.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= found:
            found, kind = len(point.parts), after.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    """Spaces, tabs and backslashes are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
