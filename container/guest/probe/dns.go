package probe

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultName resolves on an open network.
const defaultName = "example.com"

// maxServers is how many nameservers a C library asks.
const maxServers = 3

// names passes when no nameserver has an address for any of names.
func (w *wait) names(names []string) result {
	res := pass("no nameserver")
	for _, server := range nameservers() {
		for _, name := range names {
			if res = w.query(server, name); !res.ok {
				return res
			}
		}
	}
	return res
}

// nameservers are those that a program would ask; without any a C library
// asks the local host.
func nameservers() []netip.AddrPort {
	b, _ := os.ReadFile("/etc/resolv.conf")
	var servers []netip.AddrPort
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(servers) == maxServers {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, 53))
		}
	}
	if servers == nil {
		servers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}
	}
	return servers
}

func (w *wait) query(server netip.AddrPort, name string) result {
	a := connect(server, unix.SOCK_DGRAM, 0, question(name))
	if a.fd < 0 {
		return a.res
	}
	if !w.ready(a.fd, unix.POLLIN) {
		unix.Close(a.fd)
		return bad("no answer")
	}
	var buf [512]byte
	n, err := unix.Read(a.fd, buf[:])
	unix.Close(a.fd)
	if err != nil {
		return refused(err)
	}
	return answer(buf[:n])
}

// queryID is fixed: the socket is connected and used once.
const queryID = 0x7265

// question is a query for the IPv4 addresses of name.
func question(name string) []byte {
	q := binary.BigEndian.AppendUint16(nil, queryID)
	q = append(q, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for label := range strings.SplitSeq(name, ".") {
		label = label[:min(len(label), 63)]
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, 1, 0, 1) // A, IN
}

// answer passes when a response holds no answer.
func answer(b []byte) result {
	const headerSize = 12
	if len(b) < headerSize || binary.BigEndian.Uint16(b) != queryID {
		return bad("malformed answer")
	}
	if binary.BigEndian.Uint16(b[6:]) > 0 {
		return bad("resolved")
	}
	return pass("no address")
}
