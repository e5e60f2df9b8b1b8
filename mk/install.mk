# install.mk - install, uninstall, clean.

# What is installed: zt.h, zt/NAME.h, and what these include.
public   := lib/ops/ops.def $(wildcard lib/zt.h lib/zt/*.h) \
            $(filter-out lib/zt/%,$(sort $(shell sed -n 's/^\#include "\(.*\)"$$/\1/p' lib/zt.h lib/zt/*.h)))

# Quoted, because a folder may have a blank in its name. zt.pc names PREFIX, not DESTDIR. lib/zt.h is installed as
# include/zt.h, any other public header lib/NAME as include/zt/NAME (lib/zt/NAME too), and includes follow.
bindir  = '$(DESTDIR)$(PREFIX)/bin'
libdir  = '$(DESTDIR)$(PREFIX)/lib'
incdir  = '$(DESTDIR)$(PREFIX)/include'
mandir  = '$(DESTDIR)$(PREFIX)/share/man/man1'
man5dir = '$(DESTDIR)$(PREFIX)/share/man/man5'
man7dir = '$(DESTDIR)$(PREFIX)/share/man/man7'
compdir = '$(DESTDIR)$(PREFIX)/share/bash-completion/completions'
pages  := $(tools:%=%.1)

install: all
	install -d $(bindir) $(libdir)/pkgconfig $(incdir) $(mandir) $(man5dir) $(man7dir) $(compdir)
	install -m 755 $(bins) $(bindir)
	install -m 644 $(pages:%=man/%) $(mandir)
	install -m 644 man/zt-formats.5 man/zt-network.5 man/zt-program.5 $(man5dir)
	install -m 644 man/zt.7 $(BUILD)/man/zt-ops.7 $(man7dir)
	for t in $(tools); do $(BUILD)/bin/$$t --completion bash >$(compdir)/$$t || exit; done
	install -m 644 $(BUILD)/libzt.a $(libdir)
	for h in $(public); do \
	    case $$h in lib/zt.h | lib/zt/*) to=$${h#lib/} ;; *) to=zt/$${h#lib/} ;; esac; \
	    install -D -m 644 $$h $(incdir)/$$to && \
	        sed -i 's|"lib/zt\([./]\)|"zt\1|; s|"lib/|"zt/|' $(incdir)/$$to || exit; \
	done
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: zt' 'Description: neural-network models as Unix data' \
	    'Version: $(VERSION)' 'Cflags: -I$${prefix}/include' \
	    'Libs: -L$${prefix}/lib -lzt $(LIBS) -pthread' >$(libdir)/pkgconfig/zt.pc

uninstall:
	for t in $(tools); do rm -f $(bindir)/$$t $(mandir)/$$t.1 $(compdir)/$$t; done
	rm -f $(libdir)/libzt.a $(libdir)/pkgconfig/zt.pc $(man5dir)/zt-formats.5 $(man5dir)/zt-network.5 $(man5dir)/zt-program.5 $(man7dir)/zt.7 $(man7dir)/zt-ops.7
	rm -f $(incdir)/zt.h
	rm -rf $(incdir)/zt

clean:
	rm -rf $(BUILD)/lib $(BUILD)/emu $(BUILD)/shaders $(BUILD)/man $(BUILD)/tools $(BUILD)/tests $(BUILD)/bin $(BUILD)/golden $(foreach s,$(sets),$(BUILD)/$(notdir $(s:.unpacked=))) $(BUILD)/libzt.a $(BUILD)/libcommon.a \
	    $(BUILD)/asan $(BUILD)/tsan $(BUILD)/config.mk $(BUILD)/flags
distclean:
	rm -rf $(BUILD)
