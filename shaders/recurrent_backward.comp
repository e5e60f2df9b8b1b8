// recurrent_backward.comp - rnn_backward, lstm_backward, gru_backward, from the last step to the first:
// gradients of gates and first states, of which those of weights are made (lib/engine/vulkan/recurrent.c).
// Operands: saved, w_hh, peep, dy, dhn, dcn, dg; behind words, lengths, dh0, dc0 and, of gru with the reset
// after w_hh, the third gate's dg as w_hh has it. dg is 0 past the sequences' lengths.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#define LENGTHS address(0u)
#include "recurrent.glsl"

// Parts of the room: dg of the step after, gates * H floats, gru's third gate as w_hh has it; H floats each:
// what is handed on (of lstm dc, of gru dh z), dh, gru's reset gates of the step after.
uint gates, hand, dh, reset;

// What comes to unit i of h through rows first..last-1 of w_hh.
float through(uint first, uint last, uint i)
{
    precise float sum = 0.0;
    for (uint row = first; row < last; row++) sum = fma(room[gates + row], Floats(call.at[1]).v[row * H + i], sum);
    return sum;
}

// The gradient of h of unit j as far as the step after gives it.
float gradient_of_h(uint j, bool last)
{
    if (KIND != GRU) return last ? float_at(call.at[4], sequence * H + j) : through(0u, GATES * H, j);
    if (last) return room[hand + j];
    float third = through(2u * H, 3u * H, j);
    precise float sum = room[hand + j] + through(0u, 2u * H, j);
    sum += other() ? room[reset + j] * third : third;
    return sum;
}

float saved(uint row, uint which, uint j) { return Floats(call.at[0]).v[(row * SAVED + which) * H + j]; }

void put_gate(uint row, uint g, uint j, float v)
{
    room[gates + g * H + j] = v;
    Floats(call.at[6]).v[(row * GATES + g) * H + j] = v;
}

void back_rnn(uint row, uint j)
{
    precise float h = saved(row, 0u, j), d = room[dh + j];
    put_gate(row, 0u, j, other() ? (h > 0.0 ? d : 0.0) : d * (1.0 - h * h));
}

void back_lstm(uint row, uint j)
{
    precise float i = saved(row, 0u, j), f = saved(row, 1u, j), g = saved(row, 2u, j), o = saved(row, 3u, j);
    precise float tanh_c = tanh_of(saved(row, 4u, j)), before = saved(row, 5u, j), d = room[dh + j];
    precise float d_o = d * tanh_c * o * (1.0 - o);
    precise float dc = room[hand + j] + d * o * (1.0 - tanh_c * tanh_c) + d_o * float_at(call.at[2], 2u * H + j);
    precise float d_i = dc * g * i * (1.0 - i), d_f = dc * before * f * (1.0 - f);
    put_gate(row, 0u, j, d_i);
    put_gate(row, 1u, j, d_f);
    put_gate(row, 2u, j, dc * i * (1.0 - g * g));
    put_gate(row, 3u, j, d_o);
    precise float handed = dc * f + d_i * float_at(call.at[2], j) + d_f * float_at(call.at[2], H + j);
    room[hand + j] = handed;
}

void back_gru(uint row, uint j)
{
    precise float z = saved(row, 1u, j), n = saved(row, 2u, j), h = saved(row, 4u, j), d = room[dh + j];
    put_gate(row, 1u, j, d * (h - n) * z * (1.0 - z));
    put_gate(row, 2u, j, d * (1.0 - z) * (1.0 - n * n));
    precise float handed = d * z;
    room[hand + j] = handed;
}

// The reset gates, when all units of the third gate are there.
void back_resets(uint row)
{
    barrier();
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
        precise float r = saved(row, 0u, j), third = room[gates + 2u * H + j];
        precise float dr = other() ? through(2u * H, 3u * H, j) * saved(row, 4u, j) : third * saved(row, 3u, j);
        put_gate(row, 0u, j, dr * r * (1.0 - r));
        room[reset + j] = r;
    }
    barrier();
    for (uint j = gl_LocalInvocationID.x; !other() && j < H; j += THREADS) {
        precise float third = room[gates + 2u * H + j] * room[reset + j];
        room[gates + 2u * H + j] = third;
        Floats(address(6u)).v[row * H + j] = third;
    }
}

void main()
{
    find_sequence();
    if (sequence >= N) return;
    gates = 0u;
    hand = GATES * H;
    dh = hand + H;
    reset = dh + H;
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS)
        room[hand + j] = float_at(call.at[KIND == LSTM ? 5 : 4], sequence * H + j);
    for (uint i = steps; i-- > 0u;) {
        uint row = row_at(i);
        barrier();
        for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
            precise float d = gradient_of_h(j, i == steps - 1u) + float_at(call.at[3], given(call.at[3]) ? row * H + j : 0u);
            room[dh + j] = d;
        }
        barrier();
        for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
            if (KIND == RNN) back_rnn(row, j);
            if (KIND == LSTM) back_lstm(row, j);
            if (KIND == GRU) back_gru(row, j);
        }
        if (KIND == GRU) back_resets(row);
    }
    barrier();
    for (uint j = gl_LocalInvocationID.x; j < H; j += THREADS) {
        if (given(address(2u))) Floats(address(2u)).v[sequence * H + j] = gradient_of_h(j, steps == 0u);
        if (KIND == LSTM && given(address(4u))) Floats(address(4u)).v[sequence * H + j] = room[hand + j];
    }
}
