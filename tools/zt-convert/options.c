/* options.c - the options of zt-convert. */
#include "tools/zt-convert/convert.h"

static convert_options opt; /* filled by the option table, which needs constant addresses */

/* What zt-convert does; more of the table's modes are looks at a file. */
static const zt_mode modes[CONVERT_N_MODES] = {
    [CONVERT_WRITE] = {"a conversion", NULL},
    [CONVERT_EDIT] = {"a change in place", NULL},
    [CONVERT_HF] = {"an output that is a Hugging Face directory", NULL},
    [CONVERT_MOUNT] = {"tensors that become a network", NULL},
    [CONVERT_LIST] = {"--list", "list"},
    [CONVERT_META] = {"--meta", "meta"},            [CONVERT_CHECK] = {"--check", "check"},
    [CONVERT_HASH] = {"--hash", "hash"},            [CONVERT_CAT] = {"--cat", "cat"},
    [CONVERT_PROBE] = {"--probe", "probe"},         [CONVERT_BLUEPRINT] = {"--blueprint",
        "blueprint"},
};
#define WRITE ZT_IN(CONVERT_WRITE)
#define EDIT ZT_IN(CONVERT_EDIT)
#define HF ZT_IN(CONVERT_HF)
#define MOUNT ZT_IN(CONVERT_MOUNT)
#define LIST ZT_IN(CONVERT_LIST)
#define META ZT_IN(CONVERT_META)
#define CHECK ZT_IN(CONVERT_CHECK)
#define HASH ZT_IN(CONVERT_HASH)
#define CAT ZT_IN(CONVERT_CAT)
#define PROBE ZT_IN(CONVERT_PROBE)
#define BLUEPRINT ZT_IN(CONVERT_BLUEPRINT)

/* name, kind, field, the modes it applies to (0: all), the argument's name, help; then what else a
 * row has */
#define ROW(n, k, field, in, a, h, ...)                                                            \
    {.name = n, .kind = ZT_OPT_##k, .value = &opt.field, .modes = in, .arg = a, .help = h,         \
     __VA_ARGS__}
#define FLAG(n, field, in, h) ROW(n, FLAG, field, in, NULL, h, )

static const zt_opt options[] = {
    ROW("to", STR, to, WRITE | HF | MOUNT, "CONTAINER",
        "gguf, safetensors, npz, npy, pt, json, hf", .otherwise = "by OUT's name"),
    ROW("dtype", STR, dtype, WRITE | HF, "TYPE", "floats become f64, f32, f16, bf16, f8_e4m3 ...", .otherwise = "as stored"),
    ROW("select", LIST, select, WRITE | LIST, "GLOB",
        "only tensors whose names match; may be given many times", ),
    ROW("drop", LIST, drop, WRITE | LIST, "GLOB", "without tensors whose names match; likewise", ),
    ROW("rename", LIST, rename, WRITE | EDIT, "FROM=TO",
        "another name; a * in both stands for the same", ),
    ROW("set", LIST, set, WRITE | EDIT, "KEY=VALUE",
        "set a key of the metadata: KEY=text, KEY=u32:7, KEY=[1,2]", ),
    ROW("unset", LIST, unset, WRITE | EDIT, "KEY", "take keys away; a glob", ),
    ROW("shard", SIZE, shard, WRITE, "SIZE", "files of at most so many bytes of data: 4GB, 500MiB",
        .min = 1),
    FLAG("no-history", no_history, WRITE, "do not note this run in the metadata: same bytes twice"),
    FLAG("list", list, 0, "a table of the tensors: name, dtype, shape, bytes"),
    ROW("by", WORD, by, LIST, "layer|dtype", "with --list: tensors and bytes by layer or dtype", ),
    FLAG("meta", meta, 0, "a table of the metadata: key, type, value"),
    FLAG("check", check, 0, "look for every fault: structure, NaN, Inf; exit 65 if there is one"),
    FLAG("hash", hash, 0, "a line HASH  NAME for each tensor: the same in every container"),
    ROW("cat", STR, cat, 0, "NAME", "one tensor as npy on stdout", ),
    FLAG("probe", probe, 0, "a table of the layers that tensors of unknown names may be"),
    ROW("hint", LIST, hint, MOUNT | PROBE | BLUEPRINT, "INDEX=TYPE",
        "tensor INDEX is a layer of TYPE; order=LIST: how they stand; many times", ),
    FLAG("blueprint", blueprint, 0, "a network's layers and parameters as JSON"),
    {0}};

static const zt_shared_opt shared[] = {
    {"output", WRITE | HF | MOUNT | CAT, NULL},
    {"force", WRITE | MOUNT | CAT, NULL},
    {"format", LIST | META | PROBE, NULL},
    {"color", LIST | META | PROBE, NULL},
    {"progress", WRITE | EDIT | CHECK | HASH, NULL},
    {0}};

static const char *const synopsis[] = {
    "[--to CONTAINER] [--dtype TYPE] [OPTION...] IN... OUT",
    "--list | --meta | --check | --hash IN...", "--probe | --blueprint IN", "--cat NAME IN",
    "--set KEY=VALUE | --unset KEY | --rename FROM=TO FILE", NULL};

const zt_tool convert_tool = {
    .name = "zt-convert",
    .summary = "change a model's container or its dtype",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
    .modes = modes,
    .n_modes = CONVERT_N_MODES,
    .shared_options = shared,
};

convert_options *convert_options_init(void)
{
    opt = (convert_options){.by = -1};
    return &opt;
}
