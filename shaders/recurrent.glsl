// recurrent.glsl - what recurrences and their gradients share: a workgroup goes through a sequence, with
// states in shared memory. Letters, and what `saved` holds of a unit: lib/ops/recurrent.h. word: 10 T, 11 N,
// 12 H, 13 reverse, 14 relu (rnn) or the reset before w_hh (gru), 15 workgroups. The shader defines LENGTHS.
layout(constant_id = 0) const uint KIND = 0u;
layout(constant_id = 1) const uint ROOM = 4096u; // floats
layout(constant_id = 2) const uint THREADS = 64u;
layout(local_size_x_id = 2) in;

const uint RNN = 0u, LSTM = 1u, GRU = 2u;
const uint GATES = KIND == RNN ? 1u : KIND == LSTM ? 4u : 3u;
const uint SAVED = KIND == RNN ? 2u : KIND == LSTM ? 7u : 5u;
shared float room[ROOM];

uint T, N, H;
uint sequence, steps; // its length

uvec2 address(uint word) { return uvec2(call.word[word], call.word[word + 1u]); }
bool given(uvec2 a) { return (a.x | a.y) != 0u; }
float float_at(uvec2 a, uint i) { return given(a) ? Floats(a).v[i] : 0.0; }
bool other() { return call.word[14] != 0u; }

void find_sequence()
{
    T = call.word[10];
    N = call.word[11];
    H = call.word[12];
    sequence = row_of_group();
    steps = T;
    if (sequence >= N || !given(LENGTHS)) return;
    int length = Ints(LENGTHS).v[sequence];
    bool good = length >= 0 && length <= int(T);
    if (!good && gl_LocalInvocationID.x == 0u) trouble(BAD_LENGTH, length, int(T) + 1, sequence, 0u);
    steps = good ? uint(length) : 0u;
}

// The row of values [T,N,...] at step i of the sequence.
uint row_at(uint i) { return (call.word[13] != 0u ? steps - 1u - i : i) * N + sequence; }
