#!/usr/bin/env bats
# One family, one file name: the row of an op, its kernels in each engine and its shader are in files of the same name, so that
# who reads one finds the others. A family may be cut into several files, F_part.c; an engine has the op then in F_part.c
# or in F.c. Kernels for special cases are in F_case.cu and F_case.comp (linear_decode.cu, matmul_sm90.cu). Engines that
# lack an op do not count.

load ../common/helper

# One of two names is the other, or begins with it: same_family NAME NAME
same_family() { [[ $1 == "$2" || $1 == "$2"_* || $2 == "$1"_* ]]; }

setup_file() {
    "$(dirname "$BATS_TEST_FILENAME")/op_files" >"$BATS_FILE_TMPDIR/files"
    export files=$BATS_FILE_TMPDIR/files
}

@test "every op of ops.def has a row" {
    [ "$(grep -c '^OP(' "$repo/lib/ops/ops.def")" -eq "$(wc -l <"$files")" ]
    ! awk '$2 == "-"' "$files" | grep .
}

@test "the kernels of each op are in files of its row's name" {
    wrong=0
    while read -r op row kernels; do
        for name in ${kernels//+/ }; do
            if [ "$name" = - ] || same_family "$row" "$name"; then continue; fi
            echo "$op: its row is in $row.c, a kernel in $name.c"
            wrong=$((wrong + 1))
        done
    done <"$files"
    [ "$wrong" -eq 0 ]
}

@test "the test finds an op whose kernel is elsewhere" {
    same_family pool_mean pool
    same_family conv conv_filter
    if same_family norm rope || same_family linear linalg || same_family index_nd index_elements; then false; fi
}

# The names of an engine's files of kernels: lists COLUMN
lists() { awk -v k="$1" '$k != "-" { gsub(/[+]/, "\n", $k); print $k }' "$files" | sort -u; }

@test "a shader's name begins with that of the Vulkan file that names it, or with that of the row" {
    for shader in "$repo"/shaders/*.comp; do
        name=$(basename "$shader" .comp)
        found=0
        for list in $(lists 5); do
            if same_family "$name" "$list"; then found=1; fi
        done
        grep -qs "ZT_VK_SHADER_$name\b" "$repo/lib/engine/vulkan/$name".[ch] && found=1 # of no op: roof; of several: state_back
        [ "$found" -eq 1 ] || { echo "$name.comp"; false; }
    done
    for list in $(lists 5); do
        for name in $(grep -o 'ZT_VK_SHADER_[a-z0-9_]*' "$repo/lib/engine/vulkan/$list.c" | sed 's/ZT_VK_SHADER_//'); do
            same_family "$name" "$list" || { echo "$list.c runs $name.comp"; false; }
            [ -f "$repo/shaders/$name.comp" ]
        done
    done
}

@test "a file of CUDA kernels has the name of a family" {
    for source in "$repo"/lib/engine/cuda/*.cu; do
        name=$(basename "$source" .cu)
        case $name in pack | persistent_kernel) continue ;; esac # no op's: weights' layout, and stages of many
        found=0
        for list in $(lists 4); do
            if same_family "$name" "$list"; then found=1; fi
        done
        [ "$found" -eq 1 ] || { echo "$name.cu"; false; }
    done
}
