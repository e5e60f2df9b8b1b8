/* golden_arrays_back.c - the sound files of the golden sets formats/npy and formats/pt, written back as
 * npz and as pt by checkpoint.h, are read by NumPy and PyTorch as the sets expect. Skipped where
 * the python that ZT_PYTHON names, or python3, has them not. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/convert_checkpoint.h"
#include "tests/common/folder.h"
#include "tests/common/golden.h"
#include "tests/common/python.h"
#include "tests/common/tap.h"

/* NAME.npz and NAME.pt of each file that must be read: how many files. */
static int convert_all(zt_ctx *ctx, const char *root)
{
    char path[8192], to[600];
    int done = 0;
    size_t i;
    json_t *item;
    snprintf(path, sizeof path, "%s/valid.json", root);
    json_t *j = json_load_file(path, 0, NULL);
    json_array_foreach(json_object_get(j, "cases"), i, item)
    {
        const char *file = json_string_value(json_object_get(item, "file"));
        const char *verdict = json_string_value(json_object_get(item, "verdict"));
        if (!file || !verdict || strcmp(verdict, "read") != 0) continue;
        bool both = true;
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/%s", root, file);
            snprintf(to, sizeof to, "%s/%s.%s", folder, strrchr(file, '/') + 1, k ? "pt" : "npz");
            both = ckpt_convert(ctx, path, to, NULL) && both;
        }
        ok(both, "%s is written twice%s", file, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        done += both;
    }
    json_decref(j);
    return done;
}

/* Of every file: all tensors by name, shape and bytes, but those whose dtype the container lacks.
 */
static const char script[] = "import json, sys, os, numpy\n"
                             "root, folder, kind = sys.argv[1:4]\n"
                             "want = numpy.load(root + '/expected.npz')\n"
                             "n = 0\n"
                             "def of_torch(t):\n"
                             "    b = bytes(t.contiguous().view(-1).view(torch.uint8).tolist()) if t.numel() else b''\n"
                             "    return list(t.shape), b\n"
                             "def of_numpy(a): return list(a.shape), numpy.ascontiguousarray(a).tobytes()\n"
                             "if kind == 'pt': import torch\n"
                             "lacks = ['complex64', 'complex128']\n"
                             "if kind == 'npz': lacks += ['bfloat16', 'float8_e4m3fn', 'float8_e5m2']\n"
                             "for c in json.load(open(root + '/valid.json'))['cases']:\n"
                             "    f = folder + '/' + os.path.basename(c['file']) + '.' + kind\n"
                             "    if c['verdict'] != 'read': continue\n"
                             "    z = torch.load(f, weights_only=True) if kind == 'pt' else numpy.load(f)\n"
                             "    for t in c.get('tensors', c.get('arrays')):\n"
                             "        name = t['path'] if 'path' in t else t['member'] or 'arr_0'\n"
                             "        if t['dtype'] in lacks: continue\n"
                             "        shape, b = (of_torch if kind == 'pt' else of_numpy)(z[name])\n"
                             "        assert shape == t['shape'] and b == want[t['key']].tobytes(), (f, name)\n"
                             "        n += 1\n"
                             "assert n > 0\n";

static void compare(const char *python, const char *root, const char *kind)
{
    char line[8000];
    snprintf(line, sizeof line, "%s -c \"%s\" '%s' '%s' %s", python, script, root, folder, kind);
    ok(system(line) == 0, "%s: %s reads them as they were", root, strcmp(kind, "pt") == 0 ? "PyTorch" : "NumPy");
}

int main(void)
{
    static const char *const sets[] = {"formats/npy", "formats/pt"};
    char root[4096];
    const char *numpy = python_with("numpy"), *torch = numpy ? python_with("torch") : NULL;
    zt_ctx *ctx = zt_ctx_new();
    if (!folder_make("back")) return 1;
    for (int i = 0; i < 2; i++) {
        if (!golden_holds(sets[i], root)) continue;
        int count = convert_all(ctx, root);
        if (count && numpy) compare(numpy, root, "npz");
        if (count && torch) compare(torch, root, "pt");
    }
    ok(folder_remove(), "cleaned");
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
