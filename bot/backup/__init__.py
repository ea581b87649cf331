"""Backups: the queue and its pictures, copied while the bot runs, checked by hashes, and restored."""

from bot.backup.making import Made, make_backup
from bot.backup.restoring import Restored, restore_backup

__all__ = ["Made", "Restored", "make_backup", "restore_backup"]
