// expert.glsl - products by expert: the weights are a stack of matrices, of which each row of y names one in at[6].
// word from 4: matrices (0: w is one matrix), rows of y that share a row of x, rows of x. Words after that: rows of y of a
// workgroup (1 where rows name matrices).

// The matrix of row t; of one that names none the first, which is not used.
uint expert_of(uint t)
{
    if (call.word[4] == 0u) return 0u;
    int e = Ints(call.at[6]).v[t];
    return e < 0 || e >= whole(4u) ? 0u : uint(e);
}

// Does row t name a matrix? Else 0 is written, and the first column reports it.
bool is_expert(uint t, uint expert, uint m)
{
    if (call.word[4] == 0u) return true;
    int e = Ints(call.at[6]).v[t];
    if (e == int(expert)) return true;
    put_as(call.word[9], 3u, t * call.word[2] + m, 0.0);
    if (m == 0u) trouble(BAD_EXPERT, e, whole(4u), t, 0u);
    return false;
}

// The row of x for row t0 + t of y, t below the rows of a workgroup.
uint x_row(uint t0, uint t) { return min(t0 / call.word[5] + t, call.word[6] - 1u); }
