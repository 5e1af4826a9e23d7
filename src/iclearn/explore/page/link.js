/** The line to Python, where the page was served by `iclearn explore`: one socket a tab, the newest request wins. */
import { facts, numbers } from "iclearn/settings";

let socket = null;
let count = 0;
const waiting = new Map();

export const served = Boolean(facts.server);

function connect() {
  if (socket && socket.readyState <= WebSocket.OPEN) return socket;
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`);
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    const asked = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (!asked) return;
    if (answer.error) asked.reject(new Error(answer.error));
    else asked.resolve(answer);
  };
  socket.onclose = () => {
    for (const asked of waiting.values()) asked.reject(new Error("the server is gone: start `iclearn explore` again"));
    waiting.clear();
  };
  return socket;
}

/** Ask Python; the promise fails with a sentence where the answer is an error. */
export function ask(what, payload) {
  const line = connect();
  const id = ++count;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    const message = JSON.stringify({ id, what, ...payload });
    if (line.readyState === WebSocket.OPEN) line.send(message);
    else line.addEventListener("open", () => line.send(message), { once: true });
  });
}

/** The largest difference of two curves and of two sets of weights, each over its own size. */
export function difference(answer, result) {
  const losses = numbers(answer.loss);
  let loss = losses.length === result.losses.length ? 0 : Infinity;
  const top = Math.max(...result.losses.slice(0, 1), 1e-300);
  for (let i = 0; i < Math.min(losses.length, result.losses.length); i++) {
    loss = Math.max(loss, Math.abs(losses[i] - result.losses[i]) / top);
  }
  const weights = numbers(answer.weights);
  let size = 1e-300;
  for (const weight of weights) size = Math.max(size, Math.abs(weight));
  let apart = weights.length === result.final.length ? 0 : Infinity;
  for (let i = 0; i < Math.min(weights.length, result.final.length); i++) {
    apart = Math.max(apart, Math.abs(weights[i] - result.final[i]) / size);
  }
  return { loss, weights: apart };
}
