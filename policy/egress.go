package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"realm.dev/contract"
)

// Egress decides by name and port whether a session may reach a destination.
// What the name resolves to is for the guard of the egress path to judge.
func (c *Compiled) Egress(host string, port int) Decision {
	asked, err := parseAsked(host)
	if err != nil {
		return Decision{
			Effect: contract.Deny, Code: contract.EgressRefused, Rule: "host-name",
			Reason: "the destination is not a valid host name or address",
		}
	}
	for i, d := range c.egress {
		if c.policy.EgressAllow[i].Port == port && d.matches(asked) {
			return Decision{Effect: contract.Allow, Rule: "/egressAllow/" + strconv.Itoa(i), Reason: "the destination is on the allowlist"}
		}
	}
	if c.policy.EgressDefault == contract.Ask {
		return Decision{Effect: contract.Ask, Rule: "egressDefault", Reason: "the destination is not on the allowlist; the policy asks"}
	}
	return Decision{Effect: contract.Deny, Code: contract.EgressRefused, Rule: "egressDefault", Reason: "the destination is not on the allowlist"}
}

// ParseTarget reads host:port as a person or a client writes it. An IPv6
// address stands in brackets, a port is decimal.
func ParseTarget(s string) (host string, port int, err error) {
	bad := contract.Errorf(contract.SchemaInvalid, "the destination is not host:port")
	colon := strings.LastIndexByte(s, ':')
	if colon < 1 {
		return "", 0, bad
	}
	host, digits := s[:colon], s[colon+1:]
	if digits == "" || len(digits) > 5 || strings.Trim(digits, "0123456789") != "" || digits[0] == '0' {
		return "", 0, bad
	}
	if port, err = strconv.Atoi(digits); err != nil || port > 65535 {
		return "", 0, bad
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, err := netip.ParseAddr(inner); !ok || err != nil || !addr.Is6() {
			return "", 0, bad
		}
		return inner, port, nil
	}
	if strings.Contains(host, ":") {
		return "", 0, bad
	}
	return host, port, nil
}
