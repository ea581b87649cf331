// The values of the option at the caret: listed at once if the page knows them,
// requested from the bot, a moment after the last key, if the option has autocomplete.

import { fetchChoices } from "./api.js";
import { readChoice } from "./commands.js";
import { listableChoices } from "./option_values.js";

const PAUSE = 180; // milliseconds without a key before the bot is asked

/** `onChange` is called when requested choices have arrived. */
export function createChoices(model, onChange) {
  let asked = null; // what the last question was about
  let answer = [];
  let note = ""; // what to say while there are none
  let timer = null;
  let known = new Map(); // choices the bot has offered, by option, so that their names can be read back
  let owner = null;

  async function ask(key, command, option, options) {
    let choices = [];
    let failure = "";
    try {
      const body = await fetchChoices(model.me.id, model.channelId, command.name, options, option.name);
      choices = body.choices.map((choice) => readChoice(choice, model.me.locale));
      failure = body.error ?? "";
    } catch (error) {
      failure = error.message;
    }
    if (asked !== key) return;
    answer = choices;
    note = failure;
    known.set(option.name, [...(known.get(option.name) ?? []), ...choices].slice(-100));
    onChange();
  }

  return {
    /** Choices the bot has offered for this command, by option. */
    knownFor(command) {
      if (owner !== command) known = new Map();
      owner = command;
      return known;
    },

    /** Return the choices for `raw` in `option`: {choices, note}. */
    offer(command, option, raw, values) {
      if (!option.autocomplete) {
        this.forget();
        return { choices: narrowed(listableChoices(option, model.people), raw), note: "" };
      }
      const key = JSON.stringify([command.name, option.name, raw]);
      if (key !== asked) {
        asked = key;
        note = "Asking the bot …";
        clearTimeout(timer);
        timer = setTimeout(ask, PAUSE, key, command, option, { ...values, [option.name]: raw });
      }
      return { choices: isOne(answer, raw) ? [] : answer, note };
    },

    /** Cancel pending requests. */
    forget() {
      clearTimeout(timer);
      asked = null;
      answer = [];
      note = "";
    },
  };
}

const isOne = (choices, raw) =>
  choices.some((choice) => choice.label.toLowerCase() === raw.trim().toLowerCase());

// A value that is in the list needs no list.
function narrowed(choices, raw) {
  const word = raw.trim().toLowerCase();
  if (isOne(choices, raw)) return [];
  const starting = choices.filter((choice) => choice.label.toLowerCase().startsWith(word));
  return [
    ...starting,
    ...choices.filter((choice) => !starting.includes(choice) && choice.label.toLowerCase().includes(word)),
  ];
}
