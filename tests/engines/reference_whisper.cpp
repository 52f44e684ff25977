// Has whisper.cpp transcribe a tone and writes what the engine says of its times to standard
// error.
//
//   reference MODEL THREADS TOKENS
#include "whisper.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static std::string said;

// The engine's own words, which are all it says of how often it ran.
static void keep(ggml_log_level, const char * text, void *) { said += text; }

int main(int argc, char ** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: reference MODEL THREADS TOKENS\n");
        return 2;
    }
    whisper_log_set(keep, nullptr);
    whisper_context_params how = whisper_context_default_params();
    how.use_gpu = false;
    whisper_context * context = whisper_init_from_file_with_params(argv[1], how);
    if (context == nullptr) {
        fprintf(stderr, "reference: no model %s\n%s", argv[1], said.c_str());
        return 1;
    }
    std::vector<float> tone(WHISPER_SAMPLE_RATE * 2);
    for (size_t i = 0; i < tone.size(); i++) {
        tone[i] = 0.1f * std::sin(440.0f * 6.2831853f * (float) i / WHISPER_SAMPLE_RATE);
    }
    whisper_full_params params = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    params.n_threads = atoi(argv[2]);
    params.max_tokens = atoi(argv[3]);
    params.audio_ctx = 256;
    params.single_segment = true;
    params.no_timestamps = true;
    params.print_progress = false;
    params.suppress_blank = false;
    // One try: a model without weights is sure of nothing.
    params.temperature_inc = 0.0f;
    params.greedy.best_of = 1;
    if (whisper_full(context, params, tone.data(), (int) tone.size()) != 0) {
        fprintf(stderr, "reference: it failed\n%s", said.c_str());
        return 1;
    }
    // A model without weights has nothing to say: it is given its tokens.
    const whisper_token token = 7;
    for (int i = 0; i < params.max_tokens; i++) {
        if (whisper_decode(context, &token, 1, 4 + i, params.n_threads) != 0) {
            fprintf(stderr, "reference: whisper_decode failed\n%s", said.c_str());
            return 1;
        }
    }
    said.clear();
    whisper_print_timings(context);
    fputs(said.c_str(), stderr);
    whisper_free(context);
    return 0;
}
