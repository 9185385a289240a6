package probe

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// networkPatience is how long all attempts together may wait for a refusal. A
// network that is not there refuses at once.
const networkPatience = 8 * time.Millisecond

// Addresses that a program must not reach. Each would be silent on an open
// network, which counts as a failure as much as an answer does.
var (
	unlistedTCP  = []string{"192.0.2.1:443", "198.51.100.1:80", "10.0.0.1:22", "172.17.0.1:2375"}
	unlistedUDP  = []string{"192.0.2.1:53", "192.0.2.1:443", "224.0.0.251:5353"}
	unlistedIPv6 = []string{"[2001:db8::1]:443", "[64:ff9b::a00:1]:22"}
	metadataTCP  = []string{"169.254.169.254:80", "[fd00:ec2::254]:80"}
)

func (r *report) network(m *wire.ProbeRequest) {
	w := &wait{until: time.Now().Add(networkPatience)}
	type pending struct {
		name     string
		attempts []*attempt
	}
	var all []pending
	start := func(name string, kind int, lists ...[]string) {
		p := pending{name: name}
		for _, list := range lists {
			for _, address := range list {
				p.attempts = append(p.attempts, reach(address, kind))
			}
		}
		all = append(all, p)
	}
	start(wire.ProbeTCP, unix.SOCK_STREAM, unlistedTCP, m.TCP)
	start(wire.ProbeUDP, unix.SOCK_DGRAM, unlistedUDP, m.UDP)
	start(wire.ProbeIPv6, unix.SOCK_STREAM, unlistedIPv6)
	start(wire.ProbeMetadata, unix.SOCK_STREAM, metadataTCP)
	for _, p := range all {
		var results []result
		for _, a := range p.attempts {
			results = append(results, w.outcome(a))
		}
		r.add(p.name, worst(results...))
	}
	r.add(wire.ProbeDNS, w.names(append([]string{defaultName}, m.Names...)))
	r.add(wire.ProbeICMP, icmp(w))
	r.add(wire.ProbeRaw, worst(
		socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
	))
	r.add(wire.ProbeVsock, socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0))
	r.add(wire.ProbeSocketFamilies, worst(
		socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0),
		socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC),
		socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
	))
	r.add(wire.ProbeInterfaces, interfaces())
	r.add(wire.ProbeRoutes, worst(routes("/proc/net/route", 1, 0), routes("/proc/net/ipv6_route", 0, 9)))
	r.add(wire.ProbeAbstractSockets, abstractSockets())
}

// socket passes when a socket of that kind cannot even be made.
func socket(family, kind, proto int) result {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, proto)
	if err == nil {
		unix.Close(fd)
	}
	return refused(err)
}

// attempt is a connection attempt under way; fd is -1 once it is decided.
type attempt struct {
	fd   int
	kind int
	res  result
}

func decided(res result) *attempt { return &attempt{fd: -1, res: res} }

// reach starts to connect, and to send where connecting says nothing.
func reach(address string, kind int) *attempt {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return decided(bad("malformed address"))
	}
	return connect(ap, kind, 0, []byte{0})
}

func connect(ap netip.AddrPort, kind, proto int, datagram []byte) *attempt {
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()})
	if ap.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return decided(refused(err))
	}
	err = unix.Connect(fd, sa)
	if kind == unix.SOCK_STREAM && err == unix.EINPROGRESS {
		return &attempt{fd: fd, kind: kind}
	}
	if kind == unix.SOCK_DGRAM && err == nil {
		if _, err = unix.Write(fd, datagram); err == nil {
			return &attempt{fd: fd, kind: kind}
		}
	}
	unix.Close(fd)
	return decided(refused(err))
}

// wait is the time that all attempts share.
type wait struct{ until time.Time }

// ready waits for an event on fd and says whether there was one.
func (w *wait) ready(fd int, events int16) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		left := max(0, time.Until(w.until))
		ts := unix.NsecToTimespec(left.Nanoseconds())
		n, err := unix.Ppoll(fds, &ts, nil)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// outcome waits for the end of an attempt.
func (w *wait) outcome(a *attempt) result {
	if a.fd < 0 {
		return a.res
	}
	defer unix.Close(a.fd)
	events := int16(unix.POLLOUT)
	if a.kind == unix.SOCK_DGRAM {
		events = unix.POLLIN
	}
	if !w.ready(a.fd, events) {
		return bad("no answer")
	}
	errno, err := unix.GetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || errno == 0 {
		return bad("allowed")
	}
	return refused(unix.Errno(errno))
}

func icmp(w *wait) result {
	echo := []byte{8, 0, 0, 0, 0, 0, 0, 0}
	return w.outcome(connect(netip.MustParseAddrPort("192.0.2.1:0"), unix.SOCK_DGRAM, unix.IPPROTO_ICMP, echo))
}

// interfaces passes when nothing but lo is up. Kernels may add tunnel devices
// to a new network namespace, which are down.
func interfaces() result {
	b, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return bad("not visible")
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return pass("refused: " + errnoName(err))
	}
	defer unix.Close(fd)
	for line := range strings.Lines(string(b)) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || name == "lo" {
			continue
		}
		ifr, err := unix.NewIfreq(name)
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr)
		}
		if err != nil || ifr.Uint16()&unix.IFF_UP != 0 {
			return bad("another interface")
		}
	}
	return pass("only lo")
}

// routes passes when a routing table names no device but lo, in the given
// column, behind a number of lines that are headings.
func routes(path string, headings, column int) result {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return pass("no such protocol")
	}
	if err != nil {
		return bad("not visible")
	}
	for line := range strings.Lines(string(b)) {
		if headings--; headings >= 0 {
			continue
		}
		if f := strings.Fields(line); len(f) <= column || f[column] != "lo" {
			return bad("a route")
		}
	}
	return pass("none")
}

// abstractSockets passes when no socket with an abstract name is in sight:
// these are not bound to a mount, so a shared network namespace shows them.
func abstractSockets() result {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return bad("not visible")
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 7 && strings.HasPrefix(f[7], "@") {
			return bad("in sight")
		}
	}
	return pass("none")
}
