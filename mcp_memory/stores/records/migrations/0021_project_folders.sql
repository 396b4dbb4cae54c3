-- Where each project's memory was used last, so that a renamed or moved folder is known again. Never part of an export.
CREATE TABLE project_folders (
    namespace TEXT NOT NULL,
    -- As in `folders`.
    folder TEXT NOT NULL,
    repository TEXT NOT NULL,
    -- What a folder keeps when it is renamed: the file system's numbers of it and of git's directory. '' where it has none.
    mark TEXT NOT NULL,
    noted_at REAL NOT NULL,
    PRIMARY KEY (namespace, folder, repository)
) WITHOUT ROWID;

-- Namespaces that a person renamed, or merged into another: whoever still uses the former name works in the present one.
CREATE TABLE former_namespaces (
    name TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    at REAL NOT NULL,
    -- That of the folder whose own namespace it was, where the folder was gone: another one at its path is no such project.
    mark TEXT NOT NULL
) WITHOUT ROWID;
