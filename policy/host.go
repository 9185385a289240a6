package policy

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// destination is a host as the policy writes it: a name, everything below a
// name (`*.name`), or one address.
type destination struct {
	name string // canonical: lower case, ASCII, without a trailing dot
	wild bool
	addr netip.Addr // valid: an address, and name is empty
}

// String returns the canonical spelling.
func (d destination) String() string {
	switch {
	case d.addr.IsValid():
		return d.addr.String()
	case d.wild:
		return "*." + d.name
	}
	return d.name
}

// matches reports whether d covers the host that is asked for. `*.name` covers
// any depth below name, not name itself.
func (d destination) matches(asked destination) bool {
	switch {
	case asked.wild:
		return false
	case d.addr.IsValid() || asked.addr.IsValid():
		return d.addr == asked.addr
	case d.wild:
		return strings.HasSuffix(asked.name, "."+d.name)
	}
	return d.name == asked.name
}

// parseDestination reads a host of the policy. It takes only what can be read
// in one way: names are ASCII, addresses are written out.
func parseDestination(s string) (destination, error) {
	if d, ok, err := parseAddr(s); ok {
		return d, err
	}
	name, wild := strings.CutPrefix(s, "*.")
	name, err := canonicalName(name)
	if err != nil {
		return destination{}, err
	}
	if wild {
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			return destination{}, errors.New("is a wildcard over a public suffix")
		}
	}
	return destination{name: name, wild: wild}, nil
}

// parseAsked reads a host that a program asks for. A name in another script is
// converted to its ASCII form; what only looks like ASCII is refused.
func parseAsked(s string) (destination, error) {
	if d, ok, err := parseAddr(s); ok {
		return d, err
	}
	labels := strings.Split(s, ".")
	for i, label := range labels {
		if isASCII(label) {
			continue
		}
		ascii, err := idna.Lookup.ToASCII(label)
		if err != nil || !strings.HasPrefix(ascii, "xn--") {
			return destination{}, errors.New("is not a valid name in its script")
		}
		labels[i] = ascii
	}
	name, err := canonicalName(strings.Join(labels, "."))
	return destination{name: name}, err
}

// parseAddr reads an address. ok says that s is meant as one, valid or not.
func parseAddr(s string) (d destination, ok bool, err error) {
	addr, err := netip.ParseAddr(s)
	switch {
	case err != nil && strings.Contains(s, ":"):
		return d, true, errors.New("is neither a name nor an IPv6 address: a port belongs into port, brackets and schemes are not written")
	case err != nil:
		return d, false, nil
	case addr.Zone() != "":
		return d, true, errors.New("has an IPv6 zone")
	case addr.Is4In6():
		return d, true, errors.New("is an IPv4 address in IPv6 spelling: write the IPv4 address")
	}
	return destination{addr: addr}, true, nil
}

// reachable reports whether an address can be a destination at all.
func reachable(addr netip.Addr) error {
	switch {
	case addr.IsUnspecified():
		return errors.New("is the unspecified address")
	case addr.IsLoopback():
		return errors.New("is a loopback address: inside a session it is the session itself")
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("is a multicast or broadcast address")
	}
	return nil
}

// canonicalName checks a host name by the rules of RFC 1123 and returns it in
// lower case, without the one dot that may end it.
func canonicalName(s string) (string, error) {
	s = strings.TrimSuffix(s, ".")
	switch {
	case s == "":
		return "", errors.New("must name a host")
	case len(s) > 253:
		return "", errors.New("is longer than 253 bytes")
	case !isASCII(s):
		return "", errors.New("must be ASCII: write an international name in its xn-- form")
	}
	s = strings.ToLower(s)
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	if endsInNumber(labels[len(labels)-1]) {
		return "", errors.New("ends in a number but is no dotted IPv4 address")
	}
	return s, nil
}

// checkLabel checks one lower-case ASCII label.
func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("has an empty label")
	case len(label) > 63:
		return errors.New("has a label longer than 63 bytes")
	case strings.ContainsFunc(label, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}):
		return errors.New("has a character that no host name has: a wildcard is only *. at the start")
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("has a label that starts or ends with a hyphen")
	case strings.HasPrefix(label, "xn--"):
		return checkPunycode(label)
	}
	return nil
}

// checkPunycode accepts only the one spelling that IDNA would produce itself:
// an xn-- label that decodes to ASCII, or to what is mapped to something else,
// would be read differently by two programs.
func checkPunycode(label string) error {
	bad := errors.New("has an xn-- label that is not valid punycode")
	decoded, err := idna.Lookup.ToUnicode(label)
	if err != nil || isASCII(decoded) {
		return bad
	}
	if again, err := idna.Lookup.ToASCII(decoded); err != nil || again != label {
		return bad
	}
	return nil
}

// endsInNumber reports whether a last label makes programs read the name as an
// IPv4 address in one of its old spellings.
func endsInNumber(label string) bool {
	digits, set := label, "0123456789"
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		digits, set = rest, "0123456789abcdef"
	}
	return strings.Trim(digits, set) == ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
