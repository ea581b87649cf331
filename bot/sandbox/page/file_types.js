// Which types of files an option of a command or a form takes: groups, and extensions with their dot.

const GROUPS = {
  image: [".png", ".gif", ".jpg", ".jpeg", ".jfif", ".webp", ".avif"],
  video: [".mp4", ".mov", ".qt", ".webm"],
  audio: [".mp3", ".m4a", ".wav", ".ogg", ".opus", ".flac"],
};

const extensions = (types) => types.flatMap((type) => GROUPS[type] ?? [type.toLowerCase()]);

/** Whether a file of this name is taken; without types every file is. */
export const takes = (types, name) =>
  types.length === 0 || extensions(types).some((extension) => name.toLowerCase().endsWith(extension));

/** The `accept` attribute of a file input. */
export const accepted = (types) => extensions(types).join(",");
