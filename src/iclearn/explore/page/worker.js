/**
 * Appended to engine.js (without its `export` words), this is the whole of the worker that trains what is too large for the page's own
 * thread. It trains in parts and gives up as soon as a newer request has come.
 */
let newest = 0;
const pause = () => new Promise((resolve) => setTimeout(resolve));

async function answer({ id, setting, normals, records }) {
  newest = id;
  const training = new Training(setting, initialWeights(setting, normals), records);
  const part = Math.max(1, Math.floor((2e7 * setting.steps) / costOf(setting)));
  while (!training.finished) {
    training.advance(part);
    await pause();
    if (newest !== id) return;
  }
  const result = training.result();
  postMessage({ id, result });
}

onmessage = (event) => {
  answer(event.data).catch((error) => postMessage({ id: event.data.id, error: String(error) }));
};
