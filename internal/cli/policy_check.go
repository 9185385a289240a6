package cli

import (
	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/realm"
)

func newPolicyCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE|-",
		Short: "Say whether a policy is valid",
		Long: `check reads a policy as 'realm run' does, and ends with 0 when it is valid and with
2 when it is not. What a valid policy asks for and this build cannot enforce is
told as well: 'realm run' would refuse it. With --json it prints {"valid",
"violations": [{"pointer", "rule"}], "unenforceable": […]}.`,
		Args: takes(1, 1, "the policy file"),
		RunE: func(_ *cobra.Command, args []string) error {
			var v verdict
			return a.validate(&v, args, func(path string) (document, error) {
				return a.readPolicy(path, "")
			}, func(d document) error { return a.checkPolicy(&v, d) })
		},
	}
}

// checkPolicy compiles a policy and notes what cannot be enforced.
func (a *app) checkPolicy(v *verdict, d document) error {
	c, err := compilePolicy(d)
	if err != nil {
		return err
	}
	v.Unenforceable = c.Enforceable(realm.Features)
	for _, u := range v.Unenforceable {
		at := contract.Locate(d.data, d.format).Of(u)
		say(a.Err, "note: %s:%d:%d: %s: %s", d.name, at.Line, at.Column, u.Pointer, u.Rule)
	}
	return nil
}
