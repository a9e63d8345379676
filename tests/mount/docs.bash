#!/bin/bash
# The documentation agrees with the mount.
. "${BASH_SOURCE%/*}/lib.bash"

docs=$here/../../docs

test_filesystem_md_has_the_readme_of_the_mount()
{
	diff <(sed -n '/^```text$/,/^```$/p' "$docs/filesystem.md" | sed '1d;$d') README
}

test_help_and_the_readme_of_the_mount_have_80_columns()
{
	is "$(awk 'length > 80' README)" ''
	local program
	for program in "$GPUMEMD" ${GPUMEM_TRACE-}; do
		"$program" --help >"$T/help"
		is "$(awk 'length > 80' "$T/help")" ''
	done
}

test_filesystem_md_explains_every_error_that_is_tested()
{
	local name names
	names=$(grep -ohE '^\s.*(refused|denied) E[A-Z0-9]+ ' "$here"/*.bash |
		grep -oE '(refused|denied) E[A-Z0-9]+' | cut -d ' ' -f 2 | sort -u)
	like "$names" $'\nEINVAL\n'
	for name in $names; do
		grep -qE "^\|( [A-Z0-9]+,)* $name(, [A-Z0-9]+)* \|" "$docs/filesystem.md" ||
			fail "docs/filesystem.md lacks $name"
	done
}

test_the_manual_page_has_every_option_of_the_help()
{
	local option options
	options=$("$GPUMEMD" --help | grep -oE -- '--[a-z-]+' | sort -u)
	like "$options" $'\n--help\n'
	for option in $options; do
		grep -qF -- "${option//-/\\-}" "$docs/gpumemd.8" || fail "gpumemd.8 lacks $option"
	done
}

test_the_manual_page_of_the_filesystem_has_every_file_and_verb()
{
	local shown word words
	command -v man >/dev/null || skip 'man-db is not installed'
	shown=$(MANWIDTH=80 man -E UTF-8 -l "$docs/gpumem.5" | expand)
	words=$(sed -n '/^THE TREE$/,/^COMMANDS$/s/^ \+\([A-Za-z_]\+\)\/\?\( .*\)\?$/\1/p' README)
	like "$words" $'\nallocations\n'
	for word in $words; do
		grep -qE "(^| |/)$word(/|:| |\$)" <<<"$shown" || fail "gpumem.5 lacks $word"
	done
	for word in control/alloc allocations/NAME/attach modules/NAME/functions/NAME/launch; do
		grep -q "^ *$word: " <<<"$shown" || fail "gpumem.5 lacks $word"
	done
	like "$shown" $'\n +1024xf32, 16Mxf32 is a count of a type\n'
}

test_manual_pages_that_are_made_are_well_formed()
{
	local page
	command -v man >/dev/null || skip 'man-db is not installed'
	for page in gpumem.1 gpumem.5; do
		is "$(MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 "$docs/$page" 2>&1 >/dev/null)" ''
		unlike $'\n'"$(<"$docs/$page")" $'\n@'
	done
}

# ---- sessions ----

# A folder with the files that the documents name, and commands of their names that use the
# build and the software GPU.
prepare_reader()
{
	needs_software 'have eight devices'
	local library=$build/tools/softgpu machine=${T##*.}-document file
	mkdir -m 1777 "$T/files" "$T/files/etc"
	mkdir "$T/bin" "$T/mnt"
	ln -s "$docs" "$T/files/docs"
	PYTHONPATH=$here/../../tools python3 -c 'import sys, terminal
terminal.write_model(sys.argv[1])' "$T/files/model.safetensors"
	head -c 4M /dev/urandom >"$T/files/weights.bin"
	cat >"$T/bin/gpumemd" <<-EOF
		#!/bin/bash
		exec '$GPUMEMD' --driver software:devices=8:memory=256M:machine=$machine "\$@"
	EOF
	cat >"$T/bin/gpumem-trace" <<-EOF
		#!/bin/bash
		exec '$build/bpf/gpumem-trace' --library '$library/libcuda.so.1' "\$@"
	EOF
	cat >"$T/bin/python3" <<-EOF
		#!/bin/bash
		export LD_PRELOAD='$(sanitizers)' PYTHONPATH='$here/../../tools/python'
		export LD_LIBRARY_PATH='$library' GPUMEM_LIBRARY='$build/broker/client/libgpumem.so.0'
		export GPUMEM_SOFTGPU=devices=8:memory=256M:machine=$machine ASAN_OPTIONS=\$ASAN_OPTIONS:detect_leaks=0
		exec $(python_with_numpy) "\$@"
	EOF
	chmod +x "$T"/bin/*
	[ -x "$build/bpf/gpumem-trace" ] || export GPUMEM_UNTRACED=1
	ln -s "$build/tools/gpumem/gpumem" "$T/bin/gpumem"
	export PATH=$T/bin:$PATH GPUMEM_MOUNT=$T/mnt NO_COLOR=1
	cd "$T/files"
}

# document_works FILE: what is typed in the document answers as the document says.
document_works()
{
	prepare_reader
	trap 'umount -l "$T/mnt" 2>/dev/null || :; rm -rf "$T"/{bin,files,mnt}' EXIT
	PYTHONPATH=$here/../../tools:$here /usr/bin/python3 "$here/documents.py" "$1" "$T/mnt"
}

test_the_readme_does_as_it_says()
{
	document_works "$here/../../README.md"
}

test_the_cookbook_does_as_it_says()
{
	document_works "$docs/cookbook.md"
}

test_the_page_for_operators_does_as_it_says()
{
	document_works "$docs/operating.md"
}

# Up to times, processes and rates.
test_the_picture_is_what_its_script_draws()
{
	needs_software 'be the one in the picture'
	GPUMEM_BUILD=$build "$here/../../tools/picture" "$T/session.svg"
	diff <(steady "$docs/session.svg") <(steady "$T/session.svg")
}

steady()
{
	PYTHONPATH=$here/../../tools python3 -c 'import sys, terminal
for line in open(sys.argv[1]):
    print(terminal.steady(line))' "$1"
}

main "$@"
