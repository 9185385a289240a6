package policy

import "slices"

// builtinProtect are the names that a host tool runs or trusts by itself: a
// session that could write them would act on the host later. Each covers
// everything below it.
var builtinProtect = []string{
	".gitmodules",
	".gitattributes",
	".husky",
	".envrc",
	".mcp.json",
	".claude",
	".codex",
	".gemini",
	".qwen",
	".cursor",
	".amp",
	".vscode",
	".idea",
	".devcontainer",
	".github/workflows",
	".gitlab-ci.yml",
	".pre-commit-config.yaml",
	".realm",
}

// builtinHide are the places where credentials lie.
var builtinHide = []struct {
	pattern string
	except  []string // base names that hold none, exactly so spelled
	content bool     // only when HoldsToken says so
}{
	{pattern: "**/.env"},
	{pattern: "**/.env.*", except: []string{".env.example", ".env.sample", ".env.template", ".env.dist"}},
	{pattern: "**/.netrc"},
	{pattern: "**/.npmrc", content: true},
	{pattern: "**/.pypirc", content: true},
	{pattern: "**/id_{rsa,dsa,ecdsa,ed25519}"},
	{pattern: "**/.aws/credentials"},
	{pattern: "**/.git-credentials"},
	{pattern: "**/*.kubeconfig"},
	{pattern: ".kube"},
	{pattern: ".ssh"},
	{pattern: ".gnupg"},
}

// gitReadOnly are the parts of a writable git directory that host git executes
// or follows.
var gitReadOnly = []string{
	".git/config",
	".git/hooks",
	".git/commondir",
	".git/config.worktree",
	".git/modules",
	".git/worktrees",
}

// Bounds of the walks that look for hidden names.
const (
	HideWalkDepth = 4    // of the built-in list
	HideWalkMs    = 200  // of the built-in list; a walk cut short is the condition HidePartial
	OwnWalkMs     = 5000 // of the policy's own patterns; a walk cut short refuses the start
	OwnMatchMax   = 256  // of the policy's own patterns, each
)

// skippedDirs are directories of other people's files, too large to walk.
var skippedDirs = []string{".git", "node_modules", "vendor", "target", ".venv", "venv", ".virtualenv", "virtualenv", ".tox", ".nox"}

// SkipDir reports whether the walk of the built-in hide list passes a directory
// of this name by. A directory that holds a pyvenv.cfg is one too.
func SkipDir(name string) bool { return slices.Contains(skippedDirs, name) }

// BuiltInProtect returns the entries that a policy's unprotect may name.
func BuiltInProtect() []string { return slices.Clone(builtinProtect) }
