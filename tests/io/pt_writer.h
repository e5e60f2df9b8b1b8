/* pt_writer.h - for tests: write checkpoints byte by byte, sound ones and such as mean harm.
 *
 * A pickle is put together from pieces of C strings; opcodes with lengths have macros, so that the
 * compiler counts. ptw_zip and ptw_older put it where torch.load would look for it.
 */
#ifndef ZT_TEST_PT_WRITER_H
#define ZT_TEST_PT_WRITER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

typedef struct piece {
    const char *name;
    const char *bytes;
    size_t n;
} piece;

#define P(name, bytes)                                                                                                           \
    {                                                                                                                            \
        name, bytes, sizeof(bytes) - 1                                                                                           \
    }
#define U(len, text) "\x8c" len text /* SHORT_BINUNICODE, length as one byte */
#define ODICT        "ccollections\nOrderedDict\n)R"
#define V2           "ctorch._utils\n_rebuild_tensor_v2\n"
/* storage 'KEY' of N floats; a call of V2 on it */
#define STORAGE(n)      "(" U("\x07", "storage") "ctorch\nFloatStorage\n" U("\x01", "0") U("\x03", "cpu") n "tQ"
#define TENSOR(n, rest) V2 "(" STORAGE(n) rest "\x89" ODICT "tR"
#define PLAIN           TENSOR("K\x06", "K\x00(K\x02K\x03t(K\x03K\x01t") /* f32[2,3] */

#define PTW_FN __attribute__((unused)) static

/* What each of these would do is at most `true`. */
PTW_FN const piece ptw_evil[] = {
    /* names that are not allowed, in every way to name something */
    P("global_os", "\x80\x02"
                   "cos\nsystem\nU\x04trueR."),
    P("global_os_called", "\x80\x02"
                          "cos\nsystem\n(U\x04truetR."),
    P("global_posix", "\x80\x02"
                      "cposix\nsystem\n(U\x04truetR."),
    P("global_nt", "\x80\x02"
                   "cnt\nsystem\n(U\x04truetR."),
    P("global_subprocess", "\x80\x02"
                           "csubprocess\nPopen\n(U\x04truetR."),
    P("global_eval", "\x80\x02"
                     "cbuiltins\neval\n(U\x01"
                     "1tR."),
    P("global_exec", "\x80\x02"
                     "cbuiltins\nexec\n(U\x01"
                     "1tR."),
    P("global_builtin2", "\x80\x02"
                         "c__builtin__\neval\n(U\x01"
                         "1tR."),
    P("global_getattr", "\x80\x02"
                        "cbuiltins\ngetattr\n(" ODICT U("\x09", "__class__") "tR."),
    P("global_import", "\x80\x02"
                       "cbuiltins\n__import__\n(U\x02ostR."),
    P("global_compile", "\x80\x02"
                        "cbuiltins\ncompile\n."),
    P("global_open", "\x80\x02"
                     "cbuiltins\nopen\n(U\x05/nonetR."),
    P("global_print", "\x80\x02"
                      "cbuiltins\nprint\n)R."),
    P("global_torch_load", "\x80\x02"
                           "ctorch\nload\n(U\x05/nonetR."),
    P("global_torch_hub", "\x80\x02"
                          "ctorch.hub\nload\n(U\x05/nonetR."),
    P("global_from_bytes", "\x80\x02"
                           "ctorch.storage\n_load_from_bytes\n(U\x01"
                           "1tR."),
    P("global_torch_os", "\x80\x02"
                         "ctorch.serialization\nos.system\n(U\x04truetR."),
    P("global_torch_dotted", "\x80\x02"
                             "ctorch\nnn.functional.os.system\n."),
    P("global_utils_dotted", "\x80\x02"
                             "ctorch._utils\nos.system\n."),
    P("global_size_dotted", "\x80\x02"
                            "ctorch\nSize.__init__\n."),
    P("global_dict_dotted", "\x80\x02"
                            "ccollections\nOrderedDict.__class__\n."),
    P("global_namedtuple", "\x80\x02"
                           "ccollections\nnamedtuple\n."),
    P("global_sys_modules", "\x80\x02"
                            "csys\nmodules\n."),
    P("global_importlib", "\x80\x02"
                          "cimportlib\nimport_module\n(U\x02ostR."),
    P("global_pickle", "\x80\x02"
                       "cpickle\nloads\n(U\x01.tR."),
    P("global_marshal", "\x80\x02"
                        "cmarshal\nloads\n(U\x01.tR."),
    P("global_types", "\x80\x02"
                      "ctypes\nFunctionType\n."),
    P("global_copyreg", "\x80\x02"
                        "ccopyreg\n_reconstructor\n."),
    P("global_copyreg2", "\x80\x02"
                         "ccopy_reg\n_reconstructor\n."),
    P("global_newobj", "\x80\x02"
                       "ccopyreg\n__newobj__\n."),
    P("global_operator", "\x80\x02"
                         "coperator\nattrgetter\n(U\x06systemtR."),
    P("global_functools", "\x80\x02"
                          "cfunctools\npartial\n."),
    P("global_numpy", "\x80\x02"
                      "cnumpy.core.multiarray\n_reconstruct\n."),
    P("global_numpy_runstring", "\x80\x02"
                                "cnumpy.testing._private.utils\nrunstring\n."),
    P("global_pydoc", "\x80\x02"
                      "cpydoc\nlocate\n(U\x09os.systemtR."),
    P("global_timeit", "\x80\x02"
                       "ctimeit\ntimeit\n."),
    P("global_webbrowser", "\x80\x02"
                           "cwebbrowser\nopen\n."),
    P("global_ctypes", "\x80\x02"
                       "cctypes\nCDLL\n."),
    P("global_main", "\x80\x02"
                     "c__main__\nModel\n."),
    P("global_module", "\x80\x02"
                       "ctorch.nn.modules.linear\nLinear\n."),
    P("global_empty", "\x80\x02"
                      "c\n\n."),
    P("global_space", "\x80\x02"
                      "ctorch \nSize\n."),
    P("global_return", "\x80\x02"
                       "ctorch\r\nSize\n."),
    P("global_case", "\x80\x02"
                     "ctorch\nsize\n."),
    P("global_nul", "\x80\x02"
                    "ctorch\0x\nSize\n."),
    P("global_nul_name", "\x80\x02"
                         "ctorch\nSize\0.x\n."),
    P("global_cyrillic", "\x80\x02"
                         "c\xd0\xbes\nsystem\n."),
    P("global_unused", "\x80\x02}U\x01xcos\nsystem\ns."),
    P("global_popped", "\x80\x02"
                       "cos\nsystem\n0}."),
    P("global_in_memo", "\x80\x02"
                        "cos\nsystem\nq\x00"
                        "0}."),
    P("global_in_metadata", "\x80\x02" ODICT "}U\x09_metadatacos\nsystem\nsb."),
    P("stack_global", "\x80\x04" U("\x02", "os") U("\x06", "system") "\x93."),
    P("stack_global_dotted", "\x80\x04" U("\x05", "torch") U("\x0c", "os.path.join") "\x93."),
    P("stack_global_nul", "\x80\x04" U("\x07", "torch\0o") U("\x04", "Size") "\x93."),
    P("stack_global_memo", "\x80\x04" U("\x02", "os") "\x94" U("\x06", "system") "\x94"
                                                                                 "00h\x00h\x01\x93."),
    P("stack_global_dup", "\x80\x04" U("\x02", "os") "2\x93."),
    P("stack_global_bytes", "\x80\x04"
                            "C\x02osC\x06system\x93."),
    P("stack_global_lists", "\x80\x04"
                            "]](\x93."),
    P("stack_global_tuple", "\x80\x04" U("\x02", "os") U("\x06", "system") "\x86"
                                                                           "2\x93."),
    P("stack_global_ints", "\x80\x04"
                           "K\x01K\x02\x93."),
    P("stack_global_one", "\x80\x04" U("\x02", "os") "\x93."),
    /* opcodes that make objects */
    P("inst", "(U\x04trueios\nsystem\n."),
    P("inst_allowed", "(icollections\nOrderedDict\n."),
    P("obj", "(cos\nsystem\nU\x04trueo."),
    P("obj_allowed", "(ccollections\nOrderedDict\no."),
    P("newobj", "\x80\x02"
                "cos\nsystem\n(U\x04truet\x81."),
    P("newobj_ex", "\x80\x04"
                   "ccollections\nOrderedDict\n)}\x92."),
    P("ext1", "\x80\x02\x82\x01."),
    P("ext2", "\x80\x02\x83\x01\x00."),
    P("ext4", "\x80\x02\x84\x01\x00\x00\x00."),
    P("persid_text", "P0\n."),
    P("next_buffer", "\x80\x05\x97."),
    P("readonly_buffer", "\x80\x05}\x98."),
    P("protocol_6", "\x80\x06}."),
    P("opcode_ff", "\x80\x02}\xff."),
    /* calls of what is no function, or not so */
    P("reduce_text", "\x80\x02U\x06system(U\x04truetR."),
    P("reduce_int", "\x80\x02K\x01)R."),
    P("reduce_dict", "\x80\x02})R."),
    P("reduce_tensor", "\x80\x02" PLAIN ")R."),
    P("reduce_storage_class", "\x80\x02"
                              "ctorch\nFloatStorage\n)R."),
    P("reduce_dtype", "\x80\x02"
                      "ctorch\nfloat32\n)R."),
    P("reduce_untyped", "\x80\x02"
                        "ctorch.storage\nUntypedStorage\n)R."),
    P("reduce_list", "\x80\x02"
                     "ccollections\nOrderedDict\n]R."),
    P("reduce_dict_args", "\x80\x02"
                          "ccollections\nOrderedDict\n}R."),
    P("reduce_none", "\x80\x02" V2 "NR."),
    P("reduce_dict_of_int", "\x80\x02"
                            "ccollections\nOrderedDict\n(K\x01tR."),
    P("reduce_dict_of_triples", "\x80\x02"
                                "ccollections\nOrderedDict\n((]((K\x01K\x02K\x03teet."),
    P("reduce_function", "\x80\x02" V2 V2 "\x85R."),
    P("reduce_size_of_list", "\x80\x02"
                             "ctorch\nSize\n(]tR."),
    P("reduce_device", "\x80\x02"
                       "ctorch\ndevice\n(K\x01tR."),
    P("parameter_of_text", "\x80\x02"
                           "ctorch._utils\n_rebuild_parameter\n(U\x01x\x89NtR."),
    P("hooks_of_global", "\x80\x02" V2 "(" STORAGE("K\x06") "K\x00)(t\x89"
                                                            "ccollections\nOrderedDict\ntR."),
    P("hooks_with_items", "\x80\x02" V2 "(" STORAGE("K\x06") "K\x00))\x89}U\x01xK\x01stR."),
    P("v3_without_dtype", "\x80\x02"
                          "ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE("K\x06") "K\x00))\x89}tR."),
    P("v3_storage_as_dtype", "\x80\x02"
                             "ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE("K\x06") "K\x00))\x89}ctorch\nFloatStorage\ntR."),
    /* states */
    P("build_class", "\x80\x02" ODICT "}U\x09__class__U\x01xsb."),
    P("build_dict", "\x80\x02}}U\x09_metadata}sb."),
    P("build_tensor", "\x80\x02" PLAIN "}b."),
    P("build_global", "\x80\x02"
                      "ccollections\nOrderedDict\n}U\x09_metadata}sb."),
    P("build_text", "\x80\x02" ODICT "U\x01xb."),
    P("build_tuple", "\x80\x02" ODICT "N}\x86"
                     "b."),
    P("build_alone", "\x80\x02}b."),
    P("build_slots", "\x80\x02" ODICT "}K\x01K\x02sb."),
    /* persistent ids */
    P("persid_dict", "\x80\x02}Q."),
    P("persid_list", "\x80\x02]Q."),
    P("persid_text_value", "\x80\x02U\x01"
                           "0Q."),
    P("persid_short", "\x80\x02(" U("\x07", "storage") "tQ."),
    P("persid_module", "\x80\x02(" U("\x06", "module") "ctorch\nFloatStorage\n" U("\x01", "0") U("\x03", "cpu") "K\x06tQ."),
    P("persid_type_text", "\x80\x02(" U("\x07", "storage") U("\x0c", "FloatStorage") U("\x01", "0") U("\x03", "cpu") "K\x06tQ."),
    P("persid_type_dtype", "\x80\x02(" U("\x07", "storage") "ctorch\nfloat32\n" U("\x01", "0") U("\x03", "cpu") "K\x06tQ."),
    P("persid_type_function", "\x80\x02(" U("\x07", "storage") V2 U("\x01", "0") U("\x03", "cpu") "K\x06tQ."),
    P("persid_key_int", "\x80\x02(" U("\x07", "storage") "ctorch\nFloatStorage\nK\x00" U("\x03", "cpu") "K\x06tQ."),
    P("persid_key_path", "\x80\x02" V2 "((" U("\x07", "storage") "ctorch\nFloatStorage\n" U("\x0b", "/etc/passwd")
                             U("\x03", "cpu") "K\x06tQK\x00))\x89NtR."),
    P("persid_key_up", "\x80\x02" V2 "((" U("\x07", "storage") "ctorch\nFloatStorage\n" U("\x0a", "../version")
                           U("\x03", "cpu") "K\x06tQK\x00))\x89NtR."),
    P("persid_negative",
      "\x80\x02(" U("\x07", "storage") "ctorch\nFloatStorage\n" U("\x01", "0") U("\x03", "cpu") "J\xff\xff\xff\xfftQ."),
    P("persid_quantised", "\x80\x02(" U("\x07", "storage") "ctorch\nQInt8Storage\n" U("\x01", "0") U("\x03", "cpu") "K\x06tQ."),
    /* the machine itself */
    P("empty", ""),
    P("stop", "."),
    P("mark_stop", "(."),
    P("two_values", "\x80\x02}}."),
    P("after_stop", "\x80\x02}.cos\nsystem\n(U\x04truetR."),
    P("no_stop", "\x80\x02}"),
    P("pop_empty", "0}."),
    P("pop_mark_missing", "1}."),
    P("dup_mark", "(2."),
    P("tuple_without_mark", "\x80\x02K\x01t."),
    P("tuple3_short", "\x80\x02K\x01K\x02\x87."),
    P("tuple2_over_mark", "\x80\x02K\x01(K\x02\x86."),
    P("append_to_dict", "\x80\x02}K\x01"
                        "a."),
    P("append_to_tuple", "\x80\x02)K\x01"
                         "a."),
    P("setitem_on_list", "\x80\x02]K\x01K\x02s."),
    P("setitems_odd", "\x80\x02}(K\x01u."),
    P("setitems_on_tensor", "\x80\x02" PLAIN "(K\x01K\x02u."),
    P("additems_on_list", "\x80\x04](K\x01\x90."),
    P("appends_on_set", "\x80\x04\x8f(K\x01"
                        "e."),
    P("dict_odd", "(K\x01"
                  "d."),
    P("get_missing", "\x80\x02h\x05."),
    P("put_nothing", "\x80\x02q\x00."),
    P("put_mark", "\x80\x02(q\x00."),
    P("put_far", "\x80\x02}r\xff\xff\xff\xff."),
    P("put_negative", "}p-1\n."),
    P("text_long", "\x80\x02X\xff\xff\xff\x7fx."),
    P("text_huge", "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."),
    P("text_latin1", "\x80\x02X\x01\x00\x00\x00\xe9."),
    P("bytes_huge", "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fx."),
    P("long_huge", "\x80\x02\x8b\xff\xff\xff\xffx."),
    P("frame_huge", "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}."),
    P("int_text", "Ix\n."),
    P("int_large", "I99999999999999999999x\n."),
    P("long_minus", "L-99999999999999999999L\n."),
    P("long_letters", "L9999999999999999999ffL\n."),
    P("float_text", "Fx\n."),
    P("string_open", "S'x\n."),
    /* tensors that are none */
    P("size_past", "\x80\x02" TENSOR("K\x06", "K\x00(K\x07t(K\x01t") "."),
    P("offset_past", "\x80\x02" TENSOR("K\x06", "K\x01(K\x06t(K\x01t") "."),
    P("stride_past", "\x80\x02" TENSOR("K\x06", "K\x00(K\x03t(K\x03t") "."),
    P("size_negative", "\x80\x02" TENSOR("K\x06", "K\x00(J\xff\xff\xff\xfft(K\x01t") "."),
    P("stride_negative", "\x80\x02" TENSOR("K\x06", "K\x05(K\x03t(J\xff\xff\xff\xfft") "."),
    P("offset_negative", "\x80\x02" TENSOR("K\x06", "J\xff\xff\xff\xff(K\x03t(K\x01t") "."),
    P("size_wraps", "\x80\x02" TENSOR("K\x06", "K\x00(\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x40K\x04t(K\x00K\x00t") "."),
    P("size_bool", "\x80\x02" TENSOR("K\x06", "K\x00(\x88t(K\x01t") "."),
    P("size_list", "\x80\x02" TENSOR("K\x06", "K\x00]](K\x01"
                                              "ee") "."),
    P("strides_missing", "\x80\x02" TENSOR("K\x06", "K\x00(K\x02K\x03t(K\x03t") "."),
    P("storage_larger", "\x80\x02" TENSOR("K\x07", "K\x00(K\x06t(K\x01t") "."),
    P("storage_smaller", "\x80\x02" TENSOR("K\x05", "K\x00(K\x01t(K\x01t") "."),
    P("storage_two_sizes", "\x80\x02(" PLAIN TENSOR("K\x05", "K\x00(K\x01t(K\x01t") "t."),
    P("two_of_one_name", "\x80\x02}(U\x01x" PLAIN "U\x01x" PLAIN "u."),
    P("two_paths_of_one_name", "\x80\x02}(U\x03"
                               "a.b" PLAIN "U\x01"
                               "a}U\x01"
                               "b" PLAIN "su."),
    P("name_with_zero", "\x80\x02}U\x02"
                        "a\0" PLAIN "s."),
    P("tensor_in_set", "\x80\x04\x8f(" PLAIN "\x90."),
    P("tensor_below_tuple", "\x80\x02}K\x01K\x02\x86" PLAIN "s."),
    /* bombs */
    P("zeros_of_2_40", "\x80\x02" TENSOR("K\x06", "K\x00(\x8a\x06\x00\x00\x00\x00\x00\x01t(K\x00t") "."),
    P("list_in_itself", "\x80\x02]q\x00(h\x00h\x00" PLAIN "e."),
    P("dict_in_itself", "\x80\x02}q\x00U\x01xh\x00s."),
};
enum { PTW_EVIL = sizeof ptw_evil / sizeof *ptw_evil };

/* ---- files around them ----------------------------------------------------------------------- */

static const float ptw_six[6] = {0, 1, 2, 3, 4, 5};

PTW_FN uint8_t *ptw_le(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(v >> 8 * i);
    return p;
}

/* What a member's own header and the directory say alike. */
PTW_FN uint8_t *ptw_head(uint8_t *p, const char *name, const void *bytes, size_t count)
{
    p = ptw_le(p, 20, 2);
    p = ptw_le(p, 0, 4); /* no flags, stored */
    p = ptw_le(p, 0x210000, 4);
    p = ptw_le(p, crc32(0, bytes, (uInt)count), 4);
    p = ptw_le(p, count, 4);
    p = ptw_le(p, count, 4);
    p = ptw_le(p, strlen(name), 2);
    return ptw_le(p, 0, 2);
}

/* A zip checkpoint: this pickle, and storage 0 of six floats; malloc'ed. */
PTW_FN uint8_t *ptw_zip(const void *pickle, size_t n, size_t *size)
{
    const struct {
        const char *name;
        const void *bytes;
        size_t n;
    } m[] = {
        {"a/data.pkl", pickle, n}, {"a/byteorder", "little", 6}, {"a/data/0", ptw_six, sizeof ptw_six}, {"a/version", "3\n", 2}};
    uint8_t *zip = malloc(n + 1000), *p = zip, *dir;
    size_t at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = (size_t)(p - zip);
        p = ptw_head(ptw_le(p, 0x04034b50, 4), m[i].name, m[i].bytes, m[i].n);
        p = (uint8_t *)memcpy(p, m[i].name, strlen(m[i].name)) + strlen(m[i].name);
        p = (uint8_t *)memcpy(p, m[i].bytes, m[i].n) + m[i].n;
    }
    dir = p;
    for (int i = 0; i < 4; i++) {
        p = ptw_head(ptw_le(ptw_le(p, 0x02014b50, 4), 20, 2), m[i].name, m[i].bytes, m[i].n);
        p = ptw_le(ptw_le(ptw_le(p, 0, 8), 0, 2), at[i], 4);
        p = (uint8_t *)memcpy(p, m[i].name, strlen(m[i].name)) + strlen(m[i].name);
    }
    size_t bytes = (size_t)(p - dir);
    p = ptw_le(ptw_le(ptw_le(ptw_le(p, 0x06054b50, 4), 0, 4), 4, 2), 4, 2);
    p = ptw_le(ptw_le(ptw_le(p, bytes, 4), (uint64_t)(dir - zip), 4), 0, 2);
    *size = (size_t)(p - zip);
    return zip;
}

/* One of the older format, `at` saying which of its five pickles this one takes the place of;
 * malloc'ed. */
PTW_FN uint8_t *ptw_older(const void *pickle, size_t total, int at, size_t *size)
{
    static const piece usual[] = {
        P("magic", "\x80\x02\x8a\nl\xfc\x9c"
                   "F\xf9 j\xa8P\x19."),
        P("version", "\x80\x02M\xe9\x03."),
        P("machine", "\x80\x02}U\x0dlittle_endian\x88s."),
        P("object", "\x80\x02" PLAIN "."),
        P("keys", "\x80\x02](U\x01"
                  "0e."),
    };
    uint8_t *file = malloc(total + 500);
    *size = 0;
    for (int i = 0; file && i < 5; i++) {
        memcpy(file + *size, i == at ? pickle : usual[i].bytes, i == at ? total : usual[i].n);
        *size += i == at ? total : usual[i].n;
    }
    uint64_t count = 6;
    memcpy(file + *size, &count, 8);
    memcpy(file + *size + 8, ptw_six, sizeof ptw_six);
    *size += 8 + sizeof ptw_six;
    return file;
}

#endif
