// strides.glsl - where the elements of operands that broadcast are. word[1]: the axes of the output, those that go
// on from each other in all operands being one; word[2] on: each operand's step along the last. Where there is
// more than one axis, the step's table has their sizes, the last first, and then those of each operand's steps.

const uint AXES = 1u, STEPS = 2u;

// The operand of the first output after so many inputs.
uint output_after(uint inputs) { return call.word[AXES] > 1u ? inputs + 1u : inputs; }

// Of input k of so many, where the output's element i is.
uint place_of(uint k, uint inputs, uint i)
{
    uint axes = call.word[AXES], place = 0u;
    if (axes <= 1u) return i * call.word[STEPS + k];
    Words table = Words(call.at[inputs]);
    for (uint axis = 0u; axis + 1u < axes; axis++) {
        uint size = table.v[axis], rest = i / size;
        place += (i - rest * size) * table.v[axes * (1u + k) + axis];
        i = rest;
    }
    return place + i * table.v[axes * (2u + k) - 1u];
}
