// loss_classes.comp - losses of classes, x [N,C,...] with a target for each [N,...], and what they pass back. word:
// positions, classes, positions of a sample (inner), ignored class, smoothing, flags.
// ROWS, a workgroup a position, and LINES, an invocation a position: x, target, weight -> y, lse, weight of the target.
// WEIGHTS, an invocation a position: x, target, weight -> weight of the target.
// BACK, an invocation an element of x: x, target, weight, lse, dy, sums (of the targets' weights, of all weights) -> dx.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "call.glsl"
#include "group.glsl"
#include "math.glsl"

layout(constant_id = 0) const uint KIND = 0u;
const uint ROWS = 0u, LINES = 1u, WEIGHTS = 2u, BACK = 3u;
// Flags: x are log-probabilities; y is f32, whatever x; dy is one a position; it is divided by the first sum; the second
// sum is there; no class is ignored.
const uint NLL = 1u, WIDE = 2u, EACH = 4u, MEAN = 8u, ALL = 16u, NONE_IGNORED = 32u;

bool flag(uint bit) { return (call.word[5] & bit) != 0u; }
uint classes() { return call.word[1]; }
uint inner() { return call.word[2]; }

// The class of position i, or -1: ignored, or no class, which is an error.
int class_at(uint i, bool report)
{
    int c = Ints(call.at[1]).v[i];
    if (c == whole(3) && !flag(NONE_IGNORED)) return -1;
    if (c >= 0 && uint(c) < classes()) return c;
    if (report) trouble(BAD_TARGET, c, int(classes()), i, 0u);
    return -1;
}
real weight_of(uint c) { return there(2u) ? get(2u, c) : 1.0; }

uint first_class() { return KIND == ROWS ? gl_LocalInvocationID.x : 0u; }
const uint STEP = KIND == ROWS ? GROUP : 1u;
real sum_of_position(real mine) { return KIND == ROWS ? group_sum(mine) : mine; }
real max_of_position(real mine) { return KIND == ROWS ? group_max(mine) : mine; }

real lse_of(uint from)
{
    real top = -INFINITE;
    for (uint c = first_class(); c < classes(); c += STEP) {
        real x = get(0u, from + c * inner());
        top = x > top ? x : top;
    }
    top = max_of_position(top);
    Sum sum = Sum(0.0, 0.0);
    for (uint c = first_class(); c < classes(); c += STEP) {
        precise real below = get(0u, from + c * inner()) - top;
        add_to(sum, exp_of(below));
    }
    precise real lse = top + log_of(sum_of_position(sum.all));
    return lse;
}

// What smoothing adds: all classes evenly.
real smoothed(uint from, real lse)
{
    Sum sum = Sum(0.0, 0.0);
    for (uint c = first_class(); c < classes(); c += STEP) {
        precise real v = weight_of(c) * (lse - get(0u, from + c * inner()));
        add_to(sum, v);
    }
    precise real y = real_number(4u, 6u) / real(classes()) * sum_of_position(sum.all);
    return y;
}

void put_position(uint i)
{
    bool one = KIND != ROWS || gl_LocalInvocationID.x == 0u;
    uint from = i / inner() * classes() * inner() + i % inner();
    int c = class_at(i, one);
    precise real lse = 0.0, y = 0.0, weight = 0.0;
    if (!flag(NLL)) lse = lse_of(from);
    if (c >= 0) {
        weight = weight_of(uint(c));
        y = (1.0 - real_number(4u, 6u)) * weight * (lse - get(0u, from + uint(c) * inner()));
    }
    if (real_number(4u, 6u) > 0.0) {
        real more = smoothed(from, lse);
        if (c >= 0) y += more;
    }
    if (!one) return;
    if (flag(WIDE))
        Reals(call.at[3]).v[i] = y;
    else
        put(3u, i, y);
    if (there(4u)) put(4u, i, lse);
    if (there(5u)) Reals(call.at[5]).v[i] = weight;
}

// dy ((1 - e) w[t] (p - [c = t]) + e / C (p sum w - w[c])) with p = exp(x - lse), smoothing e and target t.
void put_back(uint e)
{
    uint c = e / inner() % classes(), i = e / inner() / classes() * inner() + e % inner();
    int t = class_at(i, c == 0u);
    precise real dx = 0.0, smoothing = real_number(4u, 6u);
    if (t >= 0) {
        precise real dy = get(4u, flag(EACH) ? i : 0u), hit = int(c) == t ? 1.0 : 0.0;
        precise real w = (1.0 - smoothing) * weight_of(uint(t));
        if (flag(MEAN)) dy /= Reals(call.at[5]).v[0];
        if (flag(NLL)) {
            dx = -(dy * w * hit);
        } else {
            precise real p = exp_of(get(0u, e) - get(3u, i));
            precise real all = flag(ALL) ? Reals(call.at[5]).v[1] : real(classes());
            dx = dy * (w * (p - hit) + smoothing / real(classes()) * (p * all - weight_of(c)));
        }
    }
    put(6u, e, dx);
}

void main()
{
    uint row = row_of_group(), n = call.word[0];
    if (KIND != ROWS) row = row * GROUP + gl_LocalInvocationID.x;
    if (row >= (KIND == BACK ? n * classes() : n)) return;
    if (KIND == ROWS || KIND == LINES) {
        put_position(row);
    } else if (KIND == WEIGHTS) {
        int c = class_at(row, false);
        Reals(call.at[3]).v[row] = c < 0 ? 0.0 : weight_of(uint(c));
    } else {
        put_back(row);
    }
}
