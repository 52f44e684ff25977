/*
 * The decoder of whisper.cpp, as far as its probeset reads it: a prompt, steps with a token of each of several sequences,
 * and steps of the one that is left.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_TOKENS 8

struct whisper_batch {
	int32_t n_tokens;
	int32_t *token, *pos, *n_seq_id, **seq_id;
	int8_t *logits;
};

static volatile long sink;

__attribute__((noinline)) bool whisper_decode_internal(void *context, void *state, const struct whisper_batch *batch, int threads)
{
	for (int token = 0; token < batch->n_tokens; token++)
		sink += batch->seq_id[token][0] + threads;
	return context != state;
}

int main(void)
{
	static const struct {
		int tokens, sequences[MAX_TOKENS];
	} steps[] = {
		{ 4, { 0, 0, 0, 0 } },	  { 5, { 0, 1, 2, 3, 4 } }, { 5, { 0, 1, 2, 3, 4 } },
		{ 2, { 1, 3 } },	  { 1, { 3 } },
	};
	static int32_t sequences[MAX_TOKENS], *seq_id[MAX_TOKENS];
	static long context, state;
	struct whisper_batch batch = { .seq_id = seq_id };

	for (size_t step = 0; step < sizeof(steps) / sizeof(steps[0]); step++) {
		batch.n_tokens = steps[step].tokens;
		for (int token = 0; token < batch.n_tokens; token++) {
			sequences[token] = steps[step].sequences[token];
			seq_id[token] = &sequences[token];
		}
		whisper_decode_internal(&context, &state, &batch, 1);
	}
	return 0;
}
