// Package workspace is the user's tree as a session may see it.
//
// Open resolves the directory once and keeps its descriptor; nothing later
// trusts the name again. Plan turns the policy into an ordered list of bind
// mounts: the workspace, git's directory, protected and hidden names, further
// directories and a named home. Resolve is the same policy for the file tools,
// applied to the name that a path really has. Watch and Rebind keep the mounts in force while the
// host goes on working in the tree, and Publish brings a repository that the
// session made to the host without what the host would execute.
//
// # How a name stays what it is
//
// A read-only mount protects a file only as long as the name leads to the mount.
// Inside, `mv` of a parent directory would carry it away, so every ancestor of a
// mount below a writable workspace is pinned by a bind mount onto itself: a mount point can be neither
// renamed nor removed. A symbolic link cannot be a mount point, so a
// protected name that is one refuses the start. A protected name that is
// missing gets a placeholder, an empty directory that git neither shows nor commits.
//
// # What host git follows
//
// Links in a git directory, its configuration, that of its worktrees, its
// submodules, the user and a repository around the workspace lead host git to
// hooks, programs and further configuration. What of it lies in the workspace is
// read-only as well (rule git:config, or git's own), also under another name of the same file;
// what only a link that the session could replace leads to refuses the start. A command that a
// shell puts together is not followed: Degraded says so.
//
// # What is on disk
//
// Below realm's state directory:
//
//	cover/file, cover/dir        what hidden names are covered with
//	homes/NAME                   named homes
//	quarantine/SESSION           the .git of a session in a tree that has none
//	workspaces/KEY.json, .lock   the placeholders in one tree and the sessions that need them
package workspace
