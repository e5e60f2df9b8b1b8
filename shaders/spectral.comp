// spectral.comp - discrete Fourier transforms of lines. A line whose length is a power of two and at most
// MOST is a workgroup's, in shared memory, by Stockham's radix 2; longer ones have a pass for each stage; of
// others an invocation sums a number. Operands: x, y, the table of cos and sin of 2 pi j / n; between passes
// x and y are pairs of f32. word: lines, n, entries that x has of a line, elements from one entry to the
// next, scale, inverse, are bins that are no ends doubled, numbers that a stage's transforms have.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"

layout(constant_id = 0) const uint KIND = 0u;
layout(constant_id = 1) const uint PASS = 0u;
const uint SUMS = 0u, FAST = 1u, LOAD = 2u, STAGE = 3u, STORE = 4u;
const uint OF_PAIRS = 0u, TO_BINS = 1u, OF_BINS = 2u; // pairs to pairs; a real line to n/2+1 bins; and back
#ifdef IN_F64
const uint MOST = 512u;
#else
const uint MOST = 1024u;
#endif
const uint THREADS = 64u;
layout(local_size_x = 64) in;
shared real2 room[2u * (PASS == FAST ? MOST : 1u)];

uint n() { return call.word[1]; }
uint bins() { return n() / 2u + 1u; }
bool is_end(uint k) { return k == 0u || 2u * k == n(); }
bool twice() { return call.word[6] != 0u; }
real2 turn_of(uint j) { return real2(Reals(call.at[2]).v[2u * j], Reals(call.at[2]).v[2u * j + 1u]); }

// Entry j of a line as it goes into the transform.
real2 entry_of(uint line, uint j)
{
    if (KIND == TO_BINS) return real2(get(0u, line * n() + j), 0.0);
    if (KIND == OF_PAIRS) {
        uint given = call.word[2], inner = call.word[3];
        uint at = 2u * ((line / inner * given + j) * inner + line % inner);
        return j < given ? real2(get(0u, at), get(0u, at + 1u)) : real2(0.0);
    }
    if (j >= bins()) return real2(0.0);
    uint at = 2u * (line * bins() + j);
    real by = twice() && !is_end(j) ? 2.0 : 1.0;
    return real2(by * get(0u, at), twice() && is_end(j) ? 0.0 : by * get(0u, at + 1u));
}

// How many numbers a line gives, and where the k-th goes.
uint results() { return KIND == TO_BINS ? bins() : n(); }

void put_result(uint line, uint k, real2 v)
{
    precise real scale = real_number(4u, 8u);
    if (KIND == OF_BINS) {
        put(1u, line * n() + k, scale * v.x);
        return;
    }
    bool end = KIND == TO_BINS && twice() && is_end(k);
    uint inner = call.word[3], at = 2u * (line * bins() + k);
    if (KIND == OF_PAIRS) at = 2u * ((line / inner * n() + k) * inner + line % inner);
    if (KIND == TO_BINS && twice() && !end) scale *= 2.0;
    put(1u, at, scale * v.x);
    put(1u, at + 1u, end ? 0.0 : scale * v.y);
}

real2 product_of(real2 a, real2 b)
{
    precise real2 y = real2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    return y;
}

real2 direction(real2 turn) { return real2(turn.x, call.word[5] != 0u ? turn.y : -turn.y); }

// By blocks of 32, so that errors of a long line stay small.
void sum_number(uint line, uint k)
{
    uint entries = KIND == OF_PAIRS ? min(n(), call.word[2]) : KIND == OF_BINS ? bins() : n(), turn = 0u;
    precise real2 sum = real2(0.0);
    for (uint j0 = 0u; j0 < entries; j0 += 32u) {
        precise real2 part = real2(0.0);
        for (uint j = j0; j < min(j0 + 32u, entries); j++) {
            part += product_of(entry_of(line, j), direction(turn_of(turn)));
            turn += k;
            if (turn >= n()) turn -= n();
        }
        sum += part;
    }
    put_result(line, k, sum);
}

// Each stage joins transforms of `done` numbers into ones of twice as many: where number j of half a line's
// goes, and what its partner is turned by.
uint place_of(uint j, uint done) { return j / done * 2u * done + j % done; }
real2 turn_at(uint j, uint done) { return direction(turn_of(j % done * (n() / 2u / done))); }

// From one half of the room into the other.
void transform_line(uint line)
{
    uint half_n = n() / 2u, from = 0u, to = MOST, i = gl_LocalInvocationID.x;
    for (uint j = i; j < n(); j += THREADS) room[from + j] = entry_of(line, j);
    for (uint done = 1u; done < n(); done *= 2u) {
        barrier();
        for (uint j = i; j < half_n; j += THREADS) {
            precise real2 a = room[from + j], b = product_of(room[from + j + half_n], turn_at(j, done));
            room[to + place_of(j, done)] = a + b;
            room[to + place_of(j, done) + done] = a - b;
        }
        uint was = from;
        from = to;
        to = was;
    }
    barrier();
    for (uint k = i; k < results(); k += THREADS) put_result(line, k, room[from + k]);
}

real2 pair_at(uint i) { return real2(Reals(call.at[0]).v[2u * i], Reals(call.at[0]).v[2u * i + 1u]); }
void put_pair(uint i, real2 v)
{
    Reals(call.at[1]).v[2u * i] = v.x;
    Reals(call.at[1]).v[2u * i + 1u] = v.y;
}

void join_numbers(uint line, uint j)
{
    uint done = call.word[7], first = line * n();
    precise real2 a = pair_at(first + j), b = product_of(pair_at(first + j + n() / 2u), turn_at(j, done));
    put_pair(first + place_of(j, done), a + b);
    put_pair(first + place_of(j, done) + done, a - b);
}

void main()
{
    if (PASS == FAST) {
        uint line = row_of_group();
        if (line < call.word[0]) transform_line(line);
        return;
    }
    uint e = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * 64u;
    uint each = PASS == LOAD ? n() : PASS == STAGE ? n() / 2u : results(), line = e / each, k = e % each;
    if (line >= call.word[0]) return;
    if (PASS == SUMS) sum_number(line, k);
    if (PASS == LOAD) put_pair(e, entry_of(line, k));
    if (PASS == STAGE) join_numbers(line, k);
    if (PASS == STORE) put_result(line, k, pair_at(line * n() + k));
}
