#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh - checks the Debian packages of `make deb`: lintian, the files that they install into a Debian 12 root, the programs
# there, and that a purge leaves nothing. Root; fetches the root with debootstrap and keeps it in
# build/package/root for the next time.
#
#   make deb && tests/deb.sh
set -u
cd "$(dirname "$0")/.." || exit 2
package=build/package
base=build/package-root/base
root=build/package-root/root

for program in debootstrap lintian; do
	command -v $program >/dev/null && continue
	echo "skipped: $program is missing"
	exit 0
done
[ "$(id -u)" = 0 ] || { echo "skipped: a root file system takes root" && exit 0; }
# /proc of the root is mounted for this script alone.
[ -n "${LR_OWN_MOUNTS:-}" ] || LR_OWN_MOUNTS=1 exec unshare --mount --propagation private "$0"
[ -e "$(echo $package/longreach_*.deb)" ] || { echo "FAIL there are no packages: make deb" && exit 1; }

# shellcheck source=deb_base.sh
. tests/deb_base.sh
deb_base $base bash-completion
rm -rf $root
cp -a $base $root
mount -t proc proc $root/proc || exit 1
cleanup() { umount $root/proc && rm -rf $root; }
trap cleanup EXIT

passed=0 bad=0
verdict() { # what, command...
	local what=$1
	shift
	if "$@" >build/package-root/log 2>&1; then
		passed=$((passed + 1))
	else
		echo "FAIL $what"
		tail -20 build/package-root/log
		bad=$((bad + 1))
	fi
}

in_root() { chroot $root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }

# All files, users and groups, without what dpkg, ldconfig and the user tools write for themselves.
everything() {
	(cd $root && find . -xdev \( -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./root/debs \) -prune -o \
		-printf '%p %u %m\n' | grep -vE '^\./etc/(passwd|group|shadow|gshadow)-? |^\./etc/(subuid|subgid)-? |/etc/\.pwd\.lock|ld\.so\.cache|^\./(etc|var|run|var/lib|tmp)? ' | sort)
	sort $root/etc/passwd $root/etc/group
}

lints() {
	! lintian --fail-on error,warning $package/longreach_*.changes 2>&1 | grep -v '^running with root\|^N:' | grep .
}

installs() {
	mkdir -p $root/root/debs
	cp $package/*.deb $root/root/debs
	in_root sh -c 'dpkg -i /root/debs/longreach_*.deb /root/debs/liblongreach0_*.deb /root/debs/liblongreach-dev_*.deb'
}

is_there() {
	local f
	[ -L $root/lib ] || { echo "/lib is no link any more" && return 1; }
	for f in usr/sbin/longreachd usr/bin/longreach etc/longreach/example.conf.sample etc/default/longreach \
		usr/lib/systemd/system/longreachd.service usr/lib/systemd/system/longreach-closed.service \
		etc/systemd/system/multi-user.target.wants/longreachd.service \
		etc/systemd/system/sysinit.target.wants/longreach-closed.service \
		usr/share/longreach/grafana/longreach.json usr/share/longreach/prometheus/longreach.rules.yml \
		usr/share/bash-completion/completions/longreach usr/lib/tmpfiles.d/longreach.conf usr/lib/sysusers.d/longreach.conf; do
		[ -e "$root/$f" ] || [ -L "$root/$f" ] || { echo "no $f" && return 1; }
	done
	grep -q '^longreach:' $root/etc/passwd || { echo "no user longreach" && return 1; }
	[ "$(in_root stat -c %U:%a /run/longreach)" = longreach:755 ] || { in_root ls -ld /run/longreach && return 1; }
}

runs() {
	in_root longreach headroom --length 40m --rate 400G --ports 64 --emit eos &&
		in_root longreach plan --model llama-3-405b --km 300 --rate 400G &&
		in_root longreachd --print-config /etc/longreach/example.conf.sample | grep -q '^LanPort'
}

completes() {
	in_root bash -c '. /usr/share/bash-completion/completions/longreach
		touch /etc/longreach/wakkanai.conf
		COMP_WORDS=(longreach stat) COMP_CWORD=1; _longreach; [ "${COMPREPLY[*]}" = status ] || exit 1
		COMP_WORDS=(longreach plan --mic) COMP_CWORD=2; _longreach; [ "${COMPREPLY[*]}" = --microbatches ] || exit 2
		COMP_WORDS=(longreach status wak) COMP_CWORD=2; _longreach; [ "${COMPREPLY[*]}" = wakkanai ] || exit 3' || {
		echo "completion $?"
		return 1
	}
}

# systemd parses each line of the units, and their programs exist. It leaves a file of its own.
units_verify() {
	! in_root systemd-analyze verify --man=no longreachd.service longreach-closed.service longreach-exports.service 2>&1 | grep -i longreach || return
	rm -f $root/run/systemd/systemd-units-load
}

# A link with a buffer that may hold packets.
owes() {
	cat >$root/etc/longreach/wakkanai.conf <<-END
		[Link]
		LanPort=lan0
		LocalPrefix=10.1.0.0/16
		RemotePrefix=10.2.0.0/16
		[Path]
		LocalAddress=192.0.2.1
		RemoteAddress=192.0.2.2
		Rate=10G
		[Security]
		Encryption=none
	END
	head -c 1M /dev/urandom >$root/run/longreach/wakkanai.0.arena
	[ "$(in_root longreachd --owed)" = /run/longreach/wakkanai.0.arena ]
}

# The removal reports the buffer, and the purge refuses and deletes nothing until the buffer has gone.
purge_refuses() {
	local buffer=/run/longreach/wakkanai.0.arena
	grep -q "$buffer" $root/etc/longreach/.undelivered || { echo "the removal has noted nothing" && return 1; }
	if in_root dpkg -P longreach >build/package-root/purge 2>&1; then
		echo "purged" && return 1
	fi
	grep -q "not purged: .*$buffer" build/package-root/purge || { cat build/package-root/purge && return 1; }
	[ -s $root$buffer ] && [ -e $root/etc/longreach/wakkanai.conf ] || { echo "it deleted something" && return 1; }
	rm $root$buffer
}

# A removed package keeps the link files and keys.
removes() {
	in_root dpkg -r longreach liblongreach-dev liblongreach0 && [ -e $root/etc/longreach/wakkanai.conf ] &&
		[ ! -e $root/usr/sbin/longreachd ]
}

purges() {
	in_root dpkg -P longreach liblongreach-dev liblongreach0 || return
	everything >build/package-root/after
	diff build/package-root/before build/package-root/after
}

verdict 'lintian' lints
everything >build/package-root/before
verdict 'dpkg -i' installs
verdict 'what is installed' is_there
verdict 'the programs run' runs
verdict 'the units' units_verify
verdict 'bash completion' completes
verdict 'longreachd --owed names a buffer that may hold something' owes
verdict 'dpkg -r keeps the configuration' removes
verdict 'dpkg -P refuses while a buffer holds something' purge_refuses
verdict 'dpkg -P leaves nothing' purges
echo "$passed passed, $bad failed"
[ $bad = 0 ]
