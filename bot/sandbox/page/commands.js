// The registered slash commands as this page offers them: sub-commands flattened to
// "settings set", texts in the member's language where the command has them, required
// options first. Pure: takes Discord's command objects, gives plain data.

export const OptionType = Object.freeze({
  SUB_COMMAND: 1,
  SUB_COMMAND_GROUP: 2,
  STRING: 3,
  INTEGER: 4,
  BOOLEAN: 5,
  USER: 6,
  CHANNEL: 7,
  ROLE: 8,
  MENTIONABLE: 9,
  NUMBER: 10,
  ATTACHMENT: 11,
});

const CHAT_INPUT = 1;
const MESSAGE_COMMAND = 3;

/** The message commands, in the order of their registration. */
export function readMenus(raw, locale) {
  return raw
    .filter((command) => command.type === MESSAGE_COMMAND)
    .map((command) => ({
      name: command.name,
      label: localised(command, "name", locale),
      offeredIn: command.offered_in,
    }));
}

/** The slash commands, in the order of their registration. */
export function readCommands(raw, locale) {
  return raw
    .filter((command) => (command.type ?? CHAT_INPUT) === CHAT_INPUT)
    .flatMap((command) => flatten(command, [], [], locale));
}

function flatten(command, names, labels, locale) {
  const path = [...names, command.name];
  const labelPath = [...labels, localised(command, "name", locale)];
  const options = command.options ?? [];
  const branches = options.filter(isBranch);
  const inner = (branch) => flatten({ ...branch, offered_in: command.offered_in }, path, labelPath, locale);
  if (branches.length > 0) return branches.flatMap(inner);
  return [
    {
      name: path.join(" "),
      label: labelPath.join(" "),
      description: localised(command, "description", locale),
      options: options.map((option) => readOption(option, locale)).sort((a, b) => b.required - a.required),
      offeredIn: command.offered_in,
    },
  ];
}

const isBranch = (option) =>
  option.type === OptionType.SUB_COMMAND || option.type === OptionType.SUB_COMMAND_GROUP;

function readOption(option, locale) {
  return {
    name: option.name,
    label: localised(option, "name", locale),
    description: localised(option, "description", locale),
    type: option.type,
    required: option.required ?? false,
    choices: (option.choices ?? []).map((choice) => readChoice(choice, locale)),
    autocomplete: option.autocomplete ?? false,
    min: option.min_value ?? null,
    max: option.max_value ?? null,
    minLength: option.min_length ?? 0,
    maxLength: option.max_length ?? 6000,
    channelTypes: option.channel_types ?? [],
    fileTypes: option.file_types ?? [],
  };
}

/** A choice as Discord gives it, with the name the member reads. */
export function readChoice(choice, locale) {
  return { label: localised(choice, "name", locale), name: choice.name, value: choice.value };
}

// Discord falls back from the exact locale to the default text, never to a related locale.
function localised(thing, field, locale) {
  return thing[`${field}_localizations`]?.[locale] ?? thing[field] ?? "";
}

/** The most likely command for plain text: the first one whose default option takes any text. */
export function commandForWords(commands) {
  return commands.find((command) => {
    const option = defaultOption(command);
    return (
      option?.required &&
      option.type === OptionType.STRING &&
      !option.autocomplete &&
      option.choices.length === 0
    );
  });
}

/** The options of a command that take a file, required ones first. */
export const fileOptions = (command) =>
  command.options.filter((option) => option.type === OptionType.ATTACHMENT);

/** The most likely command for a file: the one for plain text, if it takes files too. */
export function commandForFiles(commands) {
  const takers = commands.filter((command) => fileOptions(command).length > 0);
  const words = commandForWords(takers);
  return words ?? takers[0] ?? null;
}

/** The option that text without a name belongs to, as when a newcomer types `/imagine a heart`. */
export function defaultOption(command) {
  const { options } = command;
  return (
    options.find((o) => o.required && o.type === OptionType.STRING) ??
    options.find((o) => o.required && o.type !== OptionType.ATTACHMENT) ??
    options.find((o) => o.type === OptionType.STRING) ??
    options.find((o) => o.type !== OptionType.ATTACHMENT) ??
    null
  );
}
