// pad.glsl - where a padded entry comes from (lib/ops/pad.h).

const uint PAD_CONSTANT = 0u, PAD_REFLECT = 1u, PAD_EDGE = 2u, PAD_WRAP = 3u; // as in lib/engine/vulkan/pad.c

// Which entry of n is entry i, below 0 and past the end too; -1: none, a constant.
int pad_source(uint mode, int i, int n)
{
    if (i >= 0 && i < n) return i;
    if (mode == PAD_CONSTANT) return -1;
    if (mode == PAD_EDGE) return i < 0 ? 0 : n - 1;
    int period = mode == PAD_WRAP ? n : max(2 * (n - 1), 1), rest = i / period;
    rest = i - rest * period;
    if (rest < 0) rest += period;
    return rest < n ? rest : period - rest;
}
