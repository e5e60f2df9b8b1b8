// batches.glsl - where the matrices of a batch begin in a and b, from the table that
// lib/engine/vulkan/matmul.c writes, operand 2: of each batch dimension the size, then a's and b's steps (0
// where it is repeated). word 7: batch dimensions.
void find_batch(uint batch, out uint at_a, out uint at_b)
{
    uint rank = call.word[7];
    at_a = at_b = 0u;
    for (uint d = rank; d-- > 0u;) {
        uint size = Words(call.at[2]).v[d], i = batch % size;
        batch /= size;
        at_a += i * Words(call.at[2]).v[rank + d];
        at_b += i * Words(call.at[2]).v[2u * rank + d];
    }
}
