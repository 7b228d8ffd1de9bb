// The changed files as a tree, flattened to the rows that are visible. Folders with one folder in them are one row.

import type { FileChange } from "../shapes.ts";

export interface TreeRow {
  id: number;
  kind: "folder" | "file";
  path: string;
  name: string;
  depth: number;
  file: FileChange | null;
  count: number;
}
interface Folder {
  folders: Map<string, Folder>;
  files: FileChange[];
  count: number;
}

export function treeRows(files: FileChange[], closed: ReadonlySet<string>): TreeRow[] {
  const root: Folder = { folders: new Map(), files: [], count: 0 };
  for (const file of files) {
    let folder = root;
    for (const part of file.path.split("/").slice(0, -1)) {
      folder.count++;
      let next = folder.folders.get(part);
      if (!next) folder.folders.set(part, (next = { folders: new Map(), files: [], count: 0 }));
      folder = next;
    }
    folder.count++;
    folder.files.push(file);
  }
  const rows: TreeRow[] = [];
  const walk = (folder: Folder, path: string, depth: number): void => {
    for (const [part, first] of [...folder.folders].sort(([one], [other]) => one.localeCompare(other))) {
      let name = part;
      let inner = first;
      while (inner.files.length === 0 && inner.folders.size === 1) {
        const [only, next] = inner.folders.entries().next().value!;
        name += `/${only}`;
        inner = next;
      }
      const full = path ? `${path}/${name}` : name;
      rows.push({ id: rows.length + 1, kind: "folder", path: full, name, depth, file: null, count: inner.count });
      if (!closed.has(full)) walk(inner, full, depth + 1);
    }
    for (const file of folder.files.toSorted((one, other) => one.path.localeCompare(other.path))) {
      rows.push({ id: rows.length + 1, kind: "file", path: file.path, name: file.path.split("/").pop()!, depth, file, count: 1 });
    }
  };
  walk(root, "", 0);
  return rows;
}
