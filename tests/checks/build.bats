#!/usr/bin/env bats
# What the build chooses by itself: scripts/probe, make dist and make deb.

load ../common/helper

# A program of this name that answers as text says: in front of PATH.
fake() { # name, text
    mkdir -p fakes
    printf '#!/bin/sh\n%s\n' "$2" >"fakes/$1"
    chmod +x "fakes/$1"
}

# What the probe says of CUDA with these variables; its make variables go to config.mk.
probe_cuda() { # NAME=VALUE...
    env -u CUDA -u NVCC -u CUDA_ARCHS -u HIP PATH="$PWD/fakes:$PATH" CC=gcc AVX2=0 AVX2_FLAGS= AVX512_FLAGS= VULKAN=0 YAML=0 SQLITE=0 MICROHTTPD=0 CURL=0 "$@" "$repo/scripts/probe" config.mk >said ||
        return
    grep '^CUDA ' said
}

@test "CUDA kernels are compiled where a GPU is, or where they are asked for" {
    compgen -G '/dev/nvidia[0-9]*' >/dev/null && skip "this machine has an NVIDIA GPU"
    fake nvcc 'case $1 in --version) echo "Cuda compilation tools, release 12.4, V12.4.1" ;; esac'
    fake nvidia-smi 'echo "NVIDIA-SMI has failed because it could not communicate with the driver." >&2; exit 9'
    [[ $(probe_cuda) == 'CUDA     yes (no NVIDIA GPU: '*'CUDA=1 compiles them)' ]]
    grep -qx 'HAVE_CUDA := 1' config.mk
    run ! grep -q NVCC_FOUND config.mk
    [[ $(probe_cuda CUDA=1) == 'CUDA     yes (nvcc 12.4: sm_80 sm_90a and PTX 90)' ]]
    grep -qx "NVCC_FOUND := $PWD/fakes/nvcc" config.mk
    [[ $(probe_cuda CUDA=1 CUDA_ARCHS='80 89') == 'CUDA     yes (nvcc 12.4: sm_80 sm_89)' ]]
    grep -qx 'NVCC_PTX := ' config.mk
    fake nvidia-smi 'echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)"'
    [[ $(probe_cuda) == 'CUDA     yes (nvcc 12.4: '* ]]
    [[ $(probe_cuda NVCC=none) == 'CUDA     yes (no nvcc: '* ]]
    [[ $(probe_cuda CUDA=0) == 'CUDA     no '* ]]
    run ! grep -q NVCC_FOUND config.mk
    run -69 probe_cuda CUDA=1 NVCC=none
}

@test "make deps installs what the Vulkan engine is built with" {
    # dpkg-query knows no package, and apt-get prints what it is to install
    fake dpkg-query 'exit 1'
    fake apt-get 'echo "apt-get $*"'
    fake id 'echo 0'
    PATH="$PWD/fakes:$PATH" "$repo/scripts/deps" build >said
    for package in gcc make libvulkan-dev glslc; do grep -qw "installing:.* $package" said; done
}

# ---- packages ----------------------------------------------------------------------------------------

@test "make dist gives the same bytes twice, with the files of the commit" {
    [ -e "$repo/.git" ] || skip "this is not a git clone"
    for i in 1 2; do make -C "$repo" --no-print-directory BUILD="$PWD/$i" XZ_LEVEL=0 dist; done
    cmp 1/zt-*.tar.xz 2/zt-*.tar.xz
    name=$(basename 1/zt-*.tar.xz .tar.xz)
    [ "$name" = "zt-$("$bin/zt-run" --version | sed -n '1s/.* //p')" ]
    diff <(tar --quoting-style=literal -tf "1/$name.tar.xz" | sed -n "s|^$name/\(.*[^/]\)$|\1|p" | sort) <(git -C "$repo" -c core.quotePath=off ls-tree -r --name-only HEAD | sort)
    # the unpacked tarball is no clone; everything else works in it
    tar -xf "1/$name.tar.xz"
    cd "$name"
    make -n all >commands
    grep -qF -- "-DZT_COMMIT='\"unknown\"'" commands
    run -2 make dist
    [[ $output == *'dist: the tarball is made from a git clone'* ]]
}

@test "--version names the commit: of the clone that the build is in, if git reads it" {
    named=$("$bin/zt-run" --version | sed -n 's/^commit: //p')
    [[ $named =~ ^([0-9a-f]{12}(-dirty)?|unknown)$ ]]
    "$bin/zt-run" --version --format json | grep -qF "\"commit\":\"$named\","
    cd "$repo"
    make -n programs BUILD="$BATS_TEST_TMPDIR/other" >"$BATS_TEST_TMPDIR/commands" 2>/dev/null
    if [ -e .git ] && commit=$(git describe --always --exclude '*' --abbrev=12 --dirty); then
        grep -qF -- "-DZT_COMMIT='\"$commit\"'" "$BATS_TEST_TMPDIR/commands"
    fi
}

@test "the Debian packages have zt's version, and libraries for each header that the build needs" {
    cd "$repo"
    [ "$(sed -n '1s/^zt (\(.*\)).*/\1/p' debian/changelog)" = "$("$bin/zt-run" --version | sed -n '1s/.* //p')" ]
    for package in $(sed -n "s/^build='\(.*\)'$/\1/p" scripts/deps); do
        case $package in gcc | make | libc6-dev) continue ;; esac # of build-essential
        sed -n '/^Build-Depends:/,/^$/p' debian/control | grep -qw -- "$package" || { echo "Build-Depends lacks $package"; false; }
    done
    # a static library: who links with it needs the development files of what it uses
    for module in $(sed -n 's/^pc_of := //p' mk/install.mk | grep -oE -- '-l[a-z0-9-]+'); do
        name=${module#-l}
        sed -n '/^Package: libzt-dev/,$p' debian/control | grep -qE "\b(lib$name-dev|${name}lib1g-dev|lib${name%-8}-dev)\b" ||
            { echo "libzt-dev does not depend on $module"; false; }
    done
}
