// pairs.glsl - numbers as sums of two floats, of some 48 bits: x the number to the nearest float, y the rest. Include
// math.glsl first. f64 needs none.
#ifndef IN_F64

vec2 pair_sum(float a, float b)
{
    precise float s = a + b;
    return vec2(s, sum_rest(a, b, s));
}

// Of |a| >= |b|.
vec2 pair_of(float a, float b)
{
    precise float s = a + b, rest = b - (s - a);
    return vec2(s, rest);
}

vec2 add_pairs(vec2 a, vec2 b)
{
    vec2 s = pair_sum(a.x, b.x);
    precise float rest = s.y + (a.y + b.y);
    return pair_of(s.x, rest);
}

vec2 mul_pairs(vec2 a, vec2 b)
{
    precise float p = a.x * b.x;
    precise float rest = product_rest(a.x, b.x, p) + (a.x * b.y + a.y * b.x);
    return pair_of(p, rest);
}

vec2 div_pairs(vec2 a, vec2 b)
{
    precise float q = a.x / b.x, back = q * b.x;
    precise float rest = (a.x - back) - product_rest(q, b.x, back);
    precise float more = (rest + (a.y - q * b.y)) / b.x;
    return pair_of(q, more);
}

vec2 sqrt_pair(vec2 a)
{
    if (a.x <= 0.0) return vec2(0.0);
    precise float r = sqrt(a.x), back = r * r;
    precise float more = (((a.x - back) - product_rest(r, r, back)) + a.y) / (2.0 * r);
    return pair_of(r, more);
}
#endif
