# install.mk - install, uninstall, packages, clean.
#
# PREFIX=DIR (prefix=DIR is the same) and DESTDIR=DIR are honoured, and so is each folder below by its name
# (libdir=/usr/lib/x86_64-linux-gnu). Files are stripped of symbols for debuggers unless STRIP is empty.

bindir      = $(PREFIX)/bin
libdir      = $(PREFIX)/lib
libexecdir  = $(PREFIX)/libexec
includedir  = $(PREFIX)/include
mandir      = $(PREFIX)/share/man
bashdir     = $(PREFIX)/share/bash-completion/completions
zshdir      = $(PREFIX)/share/zsh/site-functions
fishdir     = $(PREFIX)/share/fish/vendor_completions.d
# Where a folder is written to: quoted, because its name may have a blank.
to = '$(DESTDIR)$(1)'

# What is installed: zt.h, zt/NAME.h, and what these include. lib/zt.h becomes include/zt.h, any other public header
# lib/NAME include/zt/NAME (lib/zt/NAME too), and includes follow.
public := lib/ops/ops.def $(wildcard lib/zt.h lib/zt/*.h) \
          $(filter-out lib/zt/%,$(sort $(shell sed -n 's/^\#include "\(.*\)"$$/\1/p' lib/zt.h lib/zt/*.h)))
pages  := $(sort $(wildcard man/*.[1-8]))
section = $(patsubst .%,%,$(suffix $(1)))
shells := bash zsh fish
script_bash = $(bashdir)/$(1)
script_zsh  = $(zshdir)/_$(1)
script_fish = $(fishdir)/$(1).fish

# zt.pc names PREFIX, not DESTDIR. The library is static, so that programs link with what it uses: Libs and Requires
# hold that, and pkg-config needs no --static.
pc_of := -lpcre2-8:libpcre2-8 -lxxhash:libxxhash -ljansson:jansson -lutf8proc:libutf8proc -lmd:libmd -lz:zlib -lyaml:yaml-0.1
pc_requires = $(foreach p,$(pc_of),$(if $(filter $(firstword $(subst :, ,$(p))),$(LIBS)),$(lastword $(subst :, ,$(p)))))
pc_libs = $(filter-out $(foreach p,$(pc_of),$(firstword $(subst :, ,$(p)))),$(LIBS)) -pthread

install: all
	install -d $(call to,$(bindir)) $(call to,$(libexecdir)) $(call to,$(libdir)/pkgconfig) $(foreach s,$(shells),$(call to,$($(s)dir)))
	install -m 755 $(BUILD)/zt $(call to,$(libexecdir)/zt)
	install -m 644 $(BUILD)/libzt.a $(call to,$(libdir)/libzt.a)
	$(if $(STRIP),$(STRIP) $(call to,$(libexecdir)/zt) && $(STRIP) -g --enable-deterministic-archives $(call to,$(libdir)/libzt.a))
	for tool in $(tools); do ln -srf $(call to,$(libexecdir)/zt) $(call to,$(bindir))/$$tool || exit; done
	$(foreach p,$(pages) $(BUILD)/man/zt-ops.7,install -D -m 644 $(p) $(call to,$(mandir)/man$(call section,$(p))/$(notdir $(p))) && ):
	$(foreach t,$(tools),$(foreach s,$(shells),$(RUN) $(BUILD)/bin/$(t) --completion $(s) >$(call to,$(call script_$(s),$(t))) && )):
	for h in $(public); do \
	    case $$h in lib/zt.h | lib/zt/*) to=$${h#lib/} ;; *) to=zt/$${h#lib/} ;; esac; \
	    install -D -m 644 $$h $(call to,$(includedir))/$$to && \
	        sed -i 's|"lib/zt\([./]\)|"zt\1|; s|"lib/|"zt/|' $(call to,$(includedir))/$$to || exit; \
	done
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(patsubst $(PREFIX)/%,$${prefix}/%,$(libdir))' \
	    'includedir=$(patsubst $(PREFIX)/%,$${prefix}/%,$(includedir))' '' 'Name: zt' \
	    'Description: neural-network models: read, run, train, quantize, merge' 'Version: $(VERSION)' \
	    'Requires: $(pc_requires)' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lzt $(pc_libs)' 'Libs.private:' \
	    >$(call to,$(libdir)/pkgconfig/zt.pc)

install-strip: install

uninstall:
	rm -f $(foreach t,$(tools),$(call to,$(bindir)/$(t)) $(foreach s,$(shells),$(call to,$(call script_$(s),$(t)))))
	rm -f $(foreach p,$(pages) zt-ops.7,$(call to,$(mandir)/man$(call section,$(p))/$(notdir $(p))))
	rm -f $(call to,$(libexecdir)/zt) $(call to,$(libdir)/libzt.a) $(call to,$(libdir)/pkgconfig/zt.pc) $(call to,$(includedir)/zt.h)
	rm -rf $(call to,$(includedir)/zt)

# ---- packages -----------------------------------------------------------------------------------

# The tarball of what is committed. The same commit gives the same bytes.
XZ_LEVEL ?= 6
dist_name := zt-$(VERSION)
dist:
	@[ -e .git ] || { echo 'dist: the tarball is made from a git clone' >&2; exit 69; }
	@mkdir -p $(BUILD)
	@git diff --quiet HEAD || echo 'dist: changes that are not committed are left out' >&2
	git -c tar.umask=0022 archive --format=tar --prefix=$(dist_name)/ HEAD >$(BUILD)/$(dist_name).tar
	xz -$(XZ_LEVEL) -T1 -f $(BUILD)/$(dist_name).tar
	@echo $(BUILD)/$(dist_name).tar.xz

# Debian packages, zt and libzt-dev, in $(BUILD)/deb, built from the tarball; DEB_CC names another compiler, DEB_ARCH=arm64 that
# architecture, for which they are cross-built. What was given to
# this make is not for that of the package.
deb:
	@scripts/deps deb
	$(if $(DEB_ARCH),@scripts/deps arm64 && scripts/sysroot '$(ARM64_SYSROOT)')
	@$(MAKE) --no-print-directory dist
	rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb
	tar -C $(BUILD)/deb -xf $(BUILD)/$(dist_name).tar.xz
	cd $(BUILD)/deb/$(dist_name) && MAKEFLAGS= MAKEOVERRIDES= $(if $(DEB_CC),CC='$(DEB_CC)') \
	    $(if $(DEB_ARCH),SYSROOT='$(ARM64_SYSROOT)') dpkg-buildpackage $(if $(DEB_ARCH),-a$(DEB_ARCH) -d) -b -us -uc -j$$(nproc)
	rm -rf $(BUILD)/deb/$(dist_name)
	@ls $(BUILD)/deb/*.deb

clean:
	rm -rf $(BUILD)/lib $(BUILD)/emu $(BUILD)/shaders $(BUILD)/man $(BUILD)/tools $(BUILD)/tests $(BUILD)/bin $(BUILD)/golden $(foreach s,$(sets),$(BUILD)/$(notdir $(s:.unpacked=))) $(BUILD)/libzt.a $(BUILD)/libcommon.a \
	    $(BUILD)/zt $(BUILD)/deb $(BUILD)/zt-*.tar* $(BUILD)/asan $(BUILD)/tsan $(BUILD)/config.mk $(BUILD)/flags $(BUILD)/commit
distclean:
	rm -rf $(BUILD)
