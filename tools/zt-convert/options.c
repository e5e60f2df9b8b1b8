/* options.c - the options of zt-convert. */
#include "tools/zt-convert/convert.h"

static convert_options opt; /* filled by the option table, which needs constant addresses */

#define ROW(n, k, field, a, h, ...)                                                                \
    {                                                                                              \
        .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .arg = a, .help = h, __VA_ARGS__       \
    }
#define FLAG(n, field, h) ROW(n, FLAG, field, NULL, h, )

static const zt_opt options[] = {
    ROW("to", STR, to, "CONTAINER",
        "gguf, safetensors, npz, npy, pt, json, hf (default: by OUT's name)", ),
    ROW("dtype", STR, dtype, "TYPE", "floats become f64, f32, f16, bf16, f8_e4m3 ...", ),
    ROW("select", LIST, select, "GLOB",
        "only tensors whose names match; may be given many times", ),
    ROW("drop", LIST, drop, "GLOB", "without tensors whose names match; likewise", ),
    ROW("rename", LIST, rename, "FROM=TO", "another name; a * in both stands for the same", ),
    ROW("set", LIST, set, "KEY=VALUE",
        "set a key of the metadata: KEY=text, KEY=u32:7, KEY=[1,2]", ),
    ROW("unset", LIST, unset, "KEY", "take keys away; a glob", ),
    ROW("shard", SIZE, shard, "SIZE", "files of at most so many bytes of data: 4GB, 500MiB",
        .min = 1),
    FLAG("no-history", no_history, "do not note this run in the metadata: same bytes twice"),
    FLAG("list", list, "a table of the tensors: name, dtype, shape, bytes"),
    ROW("by", WORD, by, "layer|dtype", "with --list: tensors and bytes by layer or dtype", ),
    FLAG("meta", meta, "a table of the metadata: key, type, value"),
    FLAG("check", check, "look for every fault: structure, NaN, Inf; exit 65 if there is one"),
    FLAG("hash", hash, "a line HASH  NAME for each tensor: the same in every container"),
    ROW("cat", STR, cat, "NAME", "one tensor as npy on stdout", ),
    FLAG("probe", probe, "a table of the layers that tensors of unknown names may be"),
    ROW("hint", LIST, hint, "INDEX=TYPE",
        "tensor INDEX of --probe is a layer of TYPE; many times", ),
    FLAG("blueprint", blueprint, "a network's layers and parameters as JSON"),
    {0}};

static const char *const synopsis[] = {
    "[--to CONTAINER] [--dtype TYPE] [OPTION...] IN... OUT",
    "--list | --meta | --check | --hash | --probe | --blueprint IN", "--cat NAME IN",
    "--set KEY=VALUE | --unset KEY | --rename FROM=TO FILE", NULL};

const zt_tool convert_tool = {
    .name = "zt-convert",
    .summary = "change a model's container or its dtype",
    .synopsis = synopsis,
    .options = options,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = -1,
};

convert_options *convert_options_init(void)
{
    opt = (convert_options){.by = -1};
    return &opt;
}
