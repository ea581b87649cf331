"""Uploads of saved pipelines and schedulers to the hub."""

from __future__ import annotations

from pathlib import Path


def upload(
    folder: Path,
    *,
    repo_id: str | None = None,
    token: str | bool | None = None,
    private: bool | None = None,
    commit_message: str | None = None,
    create_pr: bool = False,
) -> None:
    """Upload a folder as the repository `repo_id`, by default one of the folder's name."""
    from huggingface_hub import HfApi  # noqa: PLC0415 - the hub's client is slow to import

    api = HfApi(token=token)
    made = api.create_repo(repo_id or folder.name, private=private, exist_ok=True)
    api.upload_folder(
        repo_id=made.repo_id, folder_path=folder, commit_message=commit_message, create_pr=create_pr
    )
