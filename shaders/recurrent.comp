// recurrent.comp - rnn, lstm, gru. Operands: w_ih x [T,N,gates*H], w_hh transposed, b, gru's second b, h0, c0, peep;
// behind words, lengths, y, hn, cn, saved. y and saved are 0 past the sequences' lengths.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#define LENGTHS address(0u)
#include "recurrent.glsl"

// Parts of the room, H floats each: two states that take turns, lstm's c or gru's reset gates, and what
// these leave of h.
uint state, next, cell, left;

// Row `row` of w_hh times what is in the room from `from` on.
float hidden(uint row, uint from)
{
    precise float sum = 0.0;
    for (uint k = 0u; k < H; k++) sum = fma(Floats(call.at[1]).v[k * GATES * H + row], room[from + k], sum);
    return sum;
}

// What comes in at gate g of unit j, from x and its bias; and gru's second bias.
float incoming(uint row, uint g, uint j)
{
    precise float sum = Floats(call.at[0]).v[(row * GATES + g) * H + j] + float_at(call.at[2], g * H + j);
    return sum;
}
float bias(uint g, uint j) { return float_at(call.at[3], g * H + j); }

void keep(uint row, uint which, uint j, float v)
{
    if (given(address(8u))) Floats(address(8u)).v[(row * SAVED + which) * H + j] = v;
}

float step_rnn(uint row, uint j)
{
    precise float g = incoming(row, 0u, j) + hidden(j, state);
    float h = other() ? (g > 0.0 || isnan(g) ? g : 0.0) : tanh_of(g);
    keep(row, 0u, j, h);
    keep(row, 1u, j, room[state + j]);
    return h;
}

float step_lstm(uint row, uint j)
{
    precise float g[4], before = room[cell + j];
    for (uint i = 0u; i < 4u; i++) g[i] = incoming(row, i, j) + hidden(i * H + j, state);
    for (uint i = 0u; i < 2u; i++) g[i] += float_at(call.at[6], i * H + j) * before;
    float in_gate = sigmoid_of(g[0]), forget = sigmoid_of(g[1]), fresh = tanh_of(g[2]);
    precise float now = forget * before + in_gate * fresh;
    g[3] += float_at(call.at[6], 2u * H + j) * now;
    float out_gate = sigmoid_of(g[3]);
    room[cell + j] = now;
    keep(row, 0u, j, in_gate);
    keep(row, 1u, j, forget);
    keep(row, 2u, j, fresh);
    keep(row, 3u, j, out_gate);
    keep(row, 4u, j, now);
    keep(row, 5u, j, before);
    keep(row, 6u, j, room[state + j]);
    return out_gate * tanh_of(now);
}

// The reset gates of all units, and what they leave of h.
void make_resets(uint row)
{
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
        precise float g = incoming(row, 0u, j) + (hidden(j, state) + bias(0u, j));
        room[cell + j] = sigmoid_of(g);
        room[left + j] = room[cell + j] * room[state + j];
    }
    barrier();
}

float step_gru(uint row, uint j)
{
    float r = room[cell + j], h = room[state + j];
    precise float g = incoming(row, 1u, j) + (hidden(H + j, state) + bias(1u, j));
    float z = sigmoid_of(g);
    precise float after = hidden(2u * H + j, other() ? left : state) + bias(2u, j);
    g = incoming(row, 2u, j) + (other() ? after : r * after);
    float n = tanh_of(g);
    keep(row, 0u, j, r);
    keep(row, 1u, j, z);
    keep(row, 2u, j, n);
    keep(row, 3u, j, other() ? room[left + j] : after);
    keep(row, 4u, j, h);
    precise float y = (1.0 - z) * n + z * h;
    return y;
}

void main()
{
    find_sequence();
    if (sequence >= N) return;
    state = 0u;
    next = H;
    cell = 2u * H;
    left = 3u * H;
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
        room[state + j] = float_at(call.at[4], sequence * H + j);
        if (KIND == LSTM) room[cell + j] = float_at(call.at[5], sequence * H + j);
    }
    for (uint i = 0u; i < steps; i++) {
        uint row = row_at(i);
        barrier();
        if (KIND == GRU) make_resets(row);
        for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
            float y = KIND == RNN ? step_rnn(row, j) : KIND == LSTM ? step_lstm(row, j) : step_gru(row, j);
            room[next + j] = y;
            Floats(address(2u)).v[row * H + j] = y;
        }
        uint was = state;
        state = next;
        next = was;
    }
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
        if (given(address(4u))) Floats(address(4u)).v[sequence * H + j] = room[state + j];
        if (KIND == LSTM && given(address(6u))) Floats(address(6u)).v[sequence * H + j] = room[cell + j];
    }
}
