// Runs a model on llama.cpp as a package of Node has it: a prompt and some tokens.
//
//     node run_llama_node.mjs PACKAGE FOLDER MODEL TOKENS
//
// PACKAGE is node-llama-cpp or @fugood/llama.node, FOLDER the one with node_modules.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";

const [name, folder, model, count] = process.argv.slice(2);
const tokens = Number(count);
const require = createRequire(path.join(path.resolve(folder), "package.json"));
const prompt = "ba de ka lo";

async function fugood() {
    const { loadModel } = require(name);
    const options = { n_ctx: 512, n_gpu_layers: 0, n_threads: 1, warmup: false };
    const context = await loadModel({ model: path.resolve(model), ...options });
    await context.completion({ prompt, n_predict: tokens, temperature: 0, ignore_eos: true });
    await context.release();
}

async function withadama() {
    const entry = path.join(path.resolve(folder), "node_modules", name, "dist/index.js");
    const { getLlama } = await import(pathToFileURL(entry));
    const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 1, logLevel: "error" });
    const loaded = await llama.loadModel({ modelPath: path.resolve(model), gpuLayers: 0, useMmap: true });
    const context = await loaded.createContext({ contextSize: 512, sequences: 1, batchSize: 512, threads: 1 });
    const sequence = context.getSequence();
    const given = Array.from({ length: 8 }, (_, i) => 259 + ((37 * i) % 200));
    let made = 0;
    for await (const _ of sequence.evaluate(given, { temperature: 0 })) {
        if (++made >= tokens) break;
    }
    await llama.dispose();
}

await (name === "node-llama-cpp" ? withadama() : fugood());
console.log("done");
