// Clients of llama.cpp as node-llama-cpp has it: each evaluates its own sequence, all in batches of one context. The clock
// of each client is printed: to its first token, and from there to its last.
//
//     node clients_llama_node.mjs FOLDER MODEL CLIENTS TOKENS
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [folder, model, clients, count] = process.argv.slice(2);
const entry = path.join(path.resolve(folder), "node_modules/node-llama-cpp/dist/index.js");
const { getLlama } = await import(pathToFileURL(entry));
const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 1, logLevel: "error" });
const loaded = await llama.loadModel({ modelPath: path.resolve(model), gpuLayers: 0 });
const context = await loaded.createContext({ contextSize: 512, sequences: Number(clients), batchSize: 512, threads: 1 });

async function client(number) {
    const sequence = context.getSequence();
    const given = Array.from({ length: 40 + 16 * number }, (_, i) => 259 + ((37 * i + number) % 200));
    const called = performance.now();
    let first, last, made = 0;
    for await (const _ of sequence.evaluate(given, { temperature: 0 })) {
        last = performance.now();
        first ??= last;
        if (++made >= Number(count)) break;
    }
    return { prompt_n: given.length, predicted_n: made, prompt_ms: first - called, predicted_ms: last - first };
}
const times = await Promise.all(Array.from({ length: Number(clients) }, (_, number) => client(number)));
for (const line of times) console.log(JSON.stringify(line));
await llama.dispose();
