// The sandbox's endpoints for members, as functions. Every failure is an ApiError whose
// `sentences` can be shown to the person unchanged.

export class ApiError extends Error {
  constructor(sentences, status) {
    super(sentences.join(" "));
    this.sentences = sentences;
    this.status = status;
  }
}

async function answer(path, init) {
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ApiError(["The sandbox does not answer. Is it still running?"], 0);
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const sentences = body?.errors ?? [
    body?.error ?? body?.message ?? `The sandbox answered ${response.status}.`,
  ];
  throw new ApiError(sentences.map(String), response.status);
}

function get(path, query = {}) {
  return answer(`${path}?${new URLSearchParams(query)}`);
}

function post(path, body) {
  return answer(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

// Each file is one part of the request; in the body its place has the number of that part.
function upload(path, body) {
  const form = new FormData();
  let count = 0;
  const numbered = (_name, value) => {
    if (!(value instanceof File)) return value;
    form.append(`files[${count}]`, value, value.name);
    return count++;
  };
  form.append("payload_json", JSON.stringify(body, numbered));
  return answer(path, { method: "POST", body: form });
}

const withoutFiles = (options) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => !(value instanceof File)));
const filesIn = (options) => Object.entries(options).filter(([, value]) => value instanceof File);

export const fetchState = (member) => get("/sandbox/state", { member });
export const fetchMessages = (member, channel) => get("/sandbox/messages", { member, channel });
export const sendCommand = (member, channel, name, options) =>
  (filesIn(options).length > 0 ? upload : post)("/sandbox/command", { member, channel, name, options });
export const fetchChoices = (member, channel, name, options, focused) =>
  post("/sandbox/autocomplete", { member, channel, name, options: withoutFiles(options), focused });
export const press = (member, message, customId, values) =>
  post("/sandbox/press", { member, message, custom_id: customId, ...(values && { values }) });
export const chooseMenu = (member, message, name) => post("/sandbox/menu", { member, message, name });
export const say = (member, channel, content) => post("/sandbox/say", { member, channel, content });
export const submitModal = (member, interaction, values) =>
  upload("/sandbox/modal", { member, interaction, values });
export const deleteMessage = (member, message) => post("/sandbox/delete", { member, message });
export const react = (member, message, emoji, on) => post("/sandbox/react", { member, message, emoji, on });
export const install = (member, installed) => post("/sandbox/install", { member, installed });
export const misbehave = (switches) => post("/sandbox/misbehave", switches);
export const fetchLog = () => get("/sandbox/log");
