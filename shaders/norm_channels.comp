// norm_channels.comp - norms by channels, x [N,C,...], and their gradients. What is normalised together is a set: some
// channels of one sample, or one of all samples. word, from 6 on (before it are addresses of operands): N, C, elements of a
// channel and sample, channels of a set, sets of a sample (0: of all samples), sets, channels to see to, flags; then eps,
// momentum.
// SETS, a workgroup a set: x, g, b, mean, var -> y, mean, rstd, new mean, new var.
// KNOWN, an invocation an element: x, mean, var, g, b -> y.
// BACK, a workgroup a set, then one a channel: x, mean, rstd, dy, g -> dx, dg, db.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint SETS = 0u, KNOWN = 1u, BACK = 2u;
const uint UNBIASED = 1u, TRAINING = 2u;

uint N() { return call.word[6]; }
uint C() { return call.word[7]; }
uint size() { return call.word[8]; }
uint groups() { return call.word[10]; }
uint of() { return groups() != 0u ? C() / groups() : 1u; }
// Numbers in two parts, the second what a float leaves out of them.
real eps() { return real(number(14u)) + real(number(12u)); }
real momentum() { return real(number(15u)) + real(number(9u)); }
bool flag(uint bit) { return (call.word[13] & bit) != 0u; }

// Operands past the seventh, whose addresses are words.
uvec2 further(uint k) { return uvec2(call.word[2u * (k - 7u)], call.word[2u * (k - 7u) + 1u]); }
void put_statistic(uvec2 at, uint i, real v)
{
    if ((at.x | at.y) != 0u) Reals(at).v[i] = v;
}
void put_channel(uvec2 at, uint c, real v)
{
    if ((at.x | at.y) == 0u) return;
    put_at(FLOATS, at, c, v);
}

// Its elements: `runs` pieces of `run`, `step` apart, from `at` on.
struct Set {
    uint at, runs, step, run, channel;
};
Set set_of(uint i)
{
    Set s;
    s.channel = groups() != 0u ? i % groups() * of() : i;
    s.runs = groups() != 0u ? 1u : N();
    s.step = C() * size();
    s.run = of() * size();
    s.at = ((groups() != 0u ? i / groups() * C() : 0u) + s.channel) * size();
    return s;
}
uint place_of(Set s, uint e, out uint channel)
{
    uint i = e % s.run;
    channel = s.channel + i / size();
    return s.at + e / s.run * s.step + i;
}

real scaled(uint k, uint channel, real none) { return there(k) ? get(k, channel) : none; }

void norm_set(uint row)
{
    Set s = set_of(row);
    uint n = s.runs * s.run, i = gl_LocalInvocationID.x, c;
    Sum sum = Sum(0.0, 0.0), squares = Sum(0.0, 0.0);
    for (uint e = i; e < n; e += GROUP) add_to(sum, get(0u, place_of(s, e, c)));
    real all = group_sum(sum.all);
    precise real mean = n == 0u ? 0.0 : all / real(n);
    for (uint e = i; e < n; e += GROUP) {
        precise real d = get(0u, place_of(s, e, c)) - mean;
        add_to(squares, d * d);
    }
    all = group_sum(squares.all);
    precise real rstd = 1.0 / sqrt((n == 0u ? 0.0 : all / real(n)) + eps());
    for (uint e = i; e < n && there(5u); e += GROUP) {
        uint at = place_of(s, e, c);
        precise real y = (get(0u, at) - mean) * rstd * scaled(1u, c, 1.0) + scaled(2u, c, 0.0);
        put(5u, at, y);
    }
    if (i != 0u) return;
    uint less = flag(UNBIASED) && n > 1u ? n - 1u : n;
    precise real var = less == 0u ? 0.0 : all / real(less), by = momentum();
    precise real mean_was = there(3u) ? Reals(call.at[3]).v[row] : 0.0;
    precise real var_was = there(4u) ? Reals(call.at[4]).v[row] : 1.0;
    put_statistic(call.at[6], row, mean);
    put_statistic(further(7u), row, rstd);
    put_statistic(further(8u), row, (1.0 - by) * mean_was + by * mean);
    put_statistic(further(9u), row, (1.0 - by) * var_was + by * var);
}

void norm_known(uint at)
{
    if (at >= N() * C() * size()) return;
    uint c = at / size() % C();
    precise real rstd = 1.0 / sqrt(Reals(call.at[2]).v[c] + eps());
    precise real y = (get(0u, at) - Reals(call.at[1]).v[c]) * rstd * scaled(3u, c, 1.0) + scaled(4u, c, 0.0);
    put(5u, at, y);
}

// dx = rstd (d - s1 / n - h s2 / n) with d = dy g, h = (x - mean) rstd, s1 and s2 the sums of d and of d h.
void set_back(uint row)
{
    Set s = set_of(row);
    uint n = s.runs * s.run, i = gl_LocalInvocationID.x, c;
    precise real mean = Reals(call.at[1]).v[row], rstd = Reals(call.at[2]).v[row];
    Sum s1 = Sum(0.0, 0.0), s2 = Sum(0.0, 0.0);
    for (uint e = i; flag(TRAINING) && e < n; e += GROUP) {
        uint at = place_of(s, e, c);
        precise real d = get(3u, at) * scaled(4u, c, 1.0), h = (get(0u, at) - mean) * rstd;
        add_to(s1, d);
        add_to(s2, d * h);
    }
    precise real sum1 = group_sum(s1.all), sum2 = group_sum(s2.all);
    for (uint e = i; e < n; e += GROUP) {
        uint at = place_of(s, e, c);
        precise real d = get(3u, at) * scaled(4u, c, 1.0), h = (get(0u, at) - mean) * rstd;
        precise real less = flag(TRAINING) ? sum1 / real(n) + h * (sum2 / real(n)) : 0.0;
        precise real dx = rstd * (d - less);
        put(5u, at, dx);
    }
}

// dg = sum of dy h, db = sum of dy of a channel.
void channel_back(uint c)
{
    Sum dg = Sum(0.0, 0.0), db = Sum(0.0, 0.0);
    uint i = gl_LocalInvocationID.x;
    for (uint e = i; e < N() * size(); e += GROUP) {
        uint n = e / size(), at = (n * C() + c) * size() + e % size();
        uint set = groups() != 0u ? n * groups() + c / of() : c;
        precise real dy = get(3u, at), h = (get(0u, at) - Reals(call.at[1]).v[set]) * Reals(call.at[2]).v[set];
        add_to(dg, dy * h);
        add_to(db, dy);
    }
    real all_dg = group_sum(dg.all), all_db = group_sum(db.all);
    if (i != 0u) return;
    put_channel(call.at[6], c, all_dg);
    put_channel(further(7u), c, all_db);
}

void main()
{
    uint row = row_of_group(), sets = call.word[11];
    if (KIND == KNOWN) {
        norm_known(row * GROUP + gl_LocalInvocationID.x);
    } else if (row < sets) {
        if (KIND == SETS)
            norm_set(row);
        else
            set_back(row);
    } else if (KIND == BACK && row - sets < call.word[12]) {
        channel_back(row - sets);
    }
}
