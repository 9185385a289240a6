package cli

import (
	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/policy"
)

func newPolicy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Write, check and explain policies",
		Args:  unknownCommand,
		RunE:  needCommand,
	}
	cmd.AddCommand(newPolicyInit(a), newPolicyCheck(a), newPolicyExplain(a))
	return cmd
}

// loadPolicy decodes a policy document.
func loadPolicy(d document) (contract.Policy, error) {
	p, err := policy.Load(d.data, policy.Format(d.format))
	return p, locate(d, err)
}

// compilePolicy decodes and compiles a policy document.
func compilePolicy(d document) (*policy.Compiled, error) {
	p, err := loadPolicy(d)
	if err != nil {
		return nil, err
	}
	c, err := policy.Compile(p)
	return c, locate(d, err)
}
