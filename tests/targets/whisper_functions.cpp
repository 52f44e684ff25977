/*
 * The decoder of whisper.cpp, as far as its probeset reads it: a prompt, steps with a token of each of several sequences,
 * and steps of the one that is left. With -DTOKENS as it was until November 2023: with the tokens of one sequence.
 */
#include <cstddef>
#include <cstdint>

constexpr int MAX_TOKENS = 8;

struct whisper_context {
	long opaque;
};

struct whisper_state {
	long opaque;
};

// It begins with what is no number of tokens.
struct whisper_decoder {
	const int *sequence;
};

struct whisper_batch {
	int32_t n_tokens;
	int32_t *token, *pos, *n_seq_id, **seq_id;
	int8_t *logits;
};

static volatile long sink;

#ifdef TOKENS
__attribute__((noinline)) bool whisper_decode_internal(whisper_context &context, whisper_state &state,
						       whisper_decoder &decoder, const int *tokens, int n_tokens,
						       int n_past, int threads)
{
	for (int token = 0; token < n_tokens; token++)
		sink = sink + tokens[token] + *decoder.sequence + n_past + threads;
	return context.opaque != state.opaque;
}
#else
__attribute__((noinline)) bool whisper_decode_internal(whisper_context &context, whisper_state &state,
						       const whisper_batch &batch, int threads)
{
	for (int token = 0; token < batch.n_tokens; token++)
		sink = sink + batch.seq_id[token][0] + threads;
	return context.opaque != state.opaque;
}
#endif

// The module is found by it.
bool whisper_encode_internal(whisper_context &context, whisper_state &state, int offset, int threads)
{
	return context.opaque == state.opaque + offset + threads;
}

int main()
{
	static const struct {
		int tokens, sequences[MAX_TOKENS];
	} steps[] = {
		{ 4, { 0, 0, 0, 0 } }, { 5, { 0, 1, 2, 3, 4 } }, { 5, { 0, 1, 2, 3, 4 } }, { 2, { 1, 3 } },
		{ 1, { 3 } },
	};
	static int32_t sequences[MAX_TOKENS], *seq_id[MAX_TOKENS];
	static whisper_context context;
	static whisper_state state;
	whisper_batch batch = { 0, nullptr, nullptr, nullptr, seq_id, nullptr };
	whisper_decoder decoder = { &steps[0].tokens };

	for (const auto &step : steps) {
		batch.n_tokens = step.tokens;
		for (int token = 0; token < batch.n_tokens; token++) {
			sequences[token] = step.sequences[token];
			seq_id[token] = &sequences[token];
		}
#ifdef TOKENS
		whisper_decode_internal(context, state, decoder, step.sequences, step.tokens, 0, 1);
#else
		whisper_decode_internal(context, state, batch, 1);
#endif
	}
	return decoder.sequence == nullptr;
}
