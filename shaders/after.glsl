// after.glsl - the end of a product: element i of y is the sum times `over` with the bias, and what is added to that. y of the
// op's float type, whose number as FLOATS has it is in word[9]; where word[8] is set, at[6] has the other term.
void put_product(float product, float over, float bias, uint i)
{
    const uint floats = call.word[9];
    precise float y = product * over, sum;
    if (there(2u)) y = y + bias;
    sum = y;
    if (call.word[8] != 0u) {
        if (floats == 1u) sum = half_to_float(float_to_half(y));
        if (floats == 2u) sum = brain_to_float(float_to_brain(y));
        sum = get_as(floats, 6u, i) + sum;
    }
    put_as(floats, 3u, i, sum);
}
