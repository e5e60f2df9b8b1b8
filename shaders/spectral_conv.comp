// spectral_conv.comp - the parts of the spectral convolution and of its gradient; grids [B,n,C], bins
// [B,modes,C] of f32 pairs.
//   KIND 0, BINS     bins of a grid                   x, bins, the table of cos and sin of 2 pi j / n
//        1, WAVES    a grid of bins                   bins, y, the table
//        2, MIX      bins of O channels of those of I bins, w_re, w_im, bins
//        3, BACK     and back, by the conjugate       bins, w_re, w_im, bins
//        4, WEIGHTS  sums over B of conj(x) z         bins x, bins z, dw_re, dw_im
// word: B, n, modes, C (or I), O, of BINS are they weighed as the inverse counts them.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint BINS = 0u, WAVES = 1u, MIX = 2u, BACK = 3u, WEIGHTS = 4u;
layout(local_size_x = 64) in;

uint B() { return call.word[0]; }
uint n() { return call.word[1]; }
uint modes() { return call.word[2]; }
uint I() { return call.word[3]; }
uint O() { return call.word[4]; }

real2 pair_at(uint k, uint i) { return real2(Reals(call.at[k]).v[2u * i], Reals(call.at[k]).v[2u * i + 1u]); }
void put_pair(uint k, uint i, real2 v)
{
    Reals(call.at[k]).v[2u * i] = v.x;
    Reals(call.at[k]).v[2u * i + 1u] = v.y;
}

real2 product_of(real2 a, real2 b)
{
    precise real2 y = real2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    return y;
}

bool is_end(uint k) { return k == 0u || 2u * k == n(); }
// What bin k counts for in the inverse.
real bin_weight(uint k) { return (is_end(k) ? 1.0 : 2.0) / real(n()); }

void make_bin(uint e)
{
    uint c = e % I(), k = e / I() % modes(), b = e / I() / modes(), turn = 0u;
    precise real2 sum = real2(0.0);
    for (uint j0 = 0u; j0 < n(); j0 += 32u) {
        precise real2 part = real2(0.0);
        for (uint j = j0; j < min(j0 + 32u, n()); j++) {
            real2 t = pair_at(2u, turn);
            part += get(0u, (b * n() + j) * I() + c) * real2(t.x, -t.y);
            turn += k;
            if (turn >= n()) turn -= n();
        }
        sum += part;
    }
    if (call.word[5] != 0u) sum *= bin_weight(k);
    if (call.word[5] != 0u && is_end(k)) sum.y = 0.0;
    put_pair(1u, e, sum);
}

void make_wave(uint e)
{
    uint c = e % I(), j = e / I() % n(), b = e / I() / n(), turn = 0u;
    precise real sum = 0.0;
    for (uint k = 0u; k < modes(); k++) {
        sum += product_of(pair_at(0u, (b * modes() + k) * I() + c), pair_at(2u, turn)).x;
        turn += j;
        if (turn >= n()) turn -= n();
    }
    put(1u, e, sum);
}

real2 weight_at(uint k, uint i, uint o)
{
    uint at = (k * I() + i) * O() + o;
    return real2(get(1u, at), get(2u, at));
}

void mix(uint e)
{
    uint o = e % O(), k = e / O() % modes(), row = e / O();
    precise real2 sum = real2(0.0);
    for (uint i = 0u; i < I(); i++) sum += product_of(pair_at(0u, row * I() + i), weight_at(k, i, o));
    put_pair(3u, e, bin_weight(k) * sum);
}

void mix_back(uint e)
{
    uint i = e % I(), k = e / I() % modes(), row = e / I();
    precise real2 sum = real2(0.0);
    for (uint o = 0u; o < O(); o++) {
        real2 w = weight_at(k, i, o);
        sum += product_of(pair_at(0u, row * O() + o), real2(w.x, -w.y));
    }
    put_pair(3u, e, sum);
}

void mix_weights(uint e)
{
    uint o = e % O(), i = e / O() % I(), k = e / O() / I();
    precise real2 sum = real2(0.0);
    for (uint b = 0u; b < B(); b++) {
        real2 x = pair_at(0u, (b * modes() + k) * I() + i);
        sum += product_of(real2(x.x, -x.y), pair_at(1u, (b * modes() + k) * O() + o));
    }
    if (there(2u)) put(2u, e, sum.x);
    if (there(3u)) put(3u, e, sum.y);
}

uint count()
{
    if (KIND == WAVES) return B() * n() * I();
    if (KIND == WEIGHTS) return modes() * I() * O();
    return B() * modes() * (KIND == MIX ? O() : I());
}

void main()
{
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    if (e >= count()) return;
    if (KIND == BINS) make_bin(e);
    if (KIND == WAVES) make_wave(e);
    if (KIND == MIX) mix(e);
    if (KIND == BACK) mix_back(e);
    if (KIND == WEIGHTS) mix_weights(e);
}
