/* losses.h - made by make.py: the losses of made models before each step of training, and after the last. */
enum { TEXTS = 2, TOKENS = 16, STEPS = 4 };
static const double learning_rate = 0.01, epsilon = 0.001;

typedef struct curve {
    const char *set, *name;
    double loss[STEPS + 1];
} curve;

static const curve curves[] = {
    {"state_space", "mamba", {15.1207814, 9.6875776, 7.4785063, 5.3034542, 3.3915060}},
    {"state_space", "mamba-untied", {5.3014445, 3.9361027, 2.9434968, 2.2891234, 1.7368342}},
    {"state_space", "falcon_mamba", {15.9688393, 11.3297349, 7.4187507, 4.6795701, 2.5982037}},
    {"state_space", "mamba2", {5.2717553, 3.6081761, 2.8525390, 2.2017499, 1.7248443}},
    {"state_space", "falcon_h1", {4.5956770, 3.4159758, 2.6873516, 2.1146562, 1.6892466}},
    {"state_space", "falcon_h1-normed", {4.7481303, 3.5417307, 2.7432920, 2.1611368, 1.7057845}},
    {"state_space", "granitehybrid", {8.9398542, 8.0943314, 7.3185341, 6.5586770, 5.8098373}},
    {"state_space", "granitehybrid-experts", {10.8167411, 9.9954994, 9.1463886, 8.2494658, 7.3086242}},
    {"state_space", "nemotron_h", {5.4836007, 3.6585002, 2.6971684, 1.9427530, 1.4270060}},
    {"state_space", "nemotron_h-last", {5.1239470, 3.7118798, 2.6284096, 1.9308897, 1.3767869}},
    {"state_space", "lfm2", {14.6218004, 7.8622042, 3.8662415, 1.4306971, 0.5602739}},
    {"state_space", "lfm2moe", {14.1739368, 6.1543436, 2.9022784, 1.0980988, 0.4868931}},
    {"delta", "qwen3next", {5.3310373, 3.9961391, 2.6911081, 1.8994226, 1.4003547}},
    {"delta", "qwen3next-listed", {5.0670183, 3.6512796, 2.7927478, 2.0330750, 1.5187000}},
    {"delta", "qwen35", {5.4274439, 3.5690594, 2.3790429, 1.6824893, 1.1491418}},
    {"delta", "qwen35-three", {5.0963557, 3.4332810, 2.3091111, 1.5994956, 1.1463283}},
    {"delta", "qwen35moe", {4.9108329, 3.3136315, 2.3862729, 1.7591829, 1.2451191}},
    {"rows", "mpt", {14.2865302, 7.4418422, 3.9019861, 2.3650519, 1.4621331}},
    {"rows", "mpt-clip", {31.4784131, 11.8870569, 5.4387992, 2.3517231, 0.9532972}},
};
