// The types that the page uses, against those of docs/openapi.json: `tests/web/test_types.py` compiles this file.
// Where they differ, the error names the path, such as "RunRow.attention".

import type { components } from "./schema.ts";
import type * as Api from "../../../web/src/lib/api/types.ts";
import type * as Run from "../../../web/src/pages/run/shapes.ts";

type Schemas = components["schemas"];
type Literal<T> = [T] extends [string] ? (string extends T ? false : true) : false;

/** The paths at which a type of the page does not fit what the server sends. */
type Differs<Sent, Used, Path extends string> = unknown extends Used
  ? never
  : null extends Sent
    ? null extends Used
      ? Inside<NonNullable<Sent>, NonNullable<Used>, Path>
      : `${Path} can be null`
    : Inside<NonNullable<Sent>, NonNullable<Used>, Path>;
type Inside<Sent, Used, Path extends string> = unknown extends Sent
  ? never
  : [Used] extends [readonly (infer UsedItem)[]]
    ? [Sent] extends [readonly (infer SentItem)[]]
      ? Differs<SentItem, UsedItem, `${Path}[]`>
      : `${Path} is no list`
    : [Used] extends [string | number | boolean]
      ? Literal<Sent> extends true
        ? [Sent] extends [Used]
          ? Literal<Used> extends true
            ? [Used] extends [Sent]
              ? never
              : `${Path} is never some of these values`
            : never
          : `${Path} can be another value`
        : [Used] extends [Sent]
          ? never
          : `${Path} is of another type`
      : string extends keyof Used
        ? never
        : { [Key in keyof Used & string]: Key extends keyof Sent ? Differs<Sent[Key], Used[Key], `${Path}.${Key}`> : `${Path}.${Key} is not sent` }[keyof Used & string];

type Pairs = {
  RunRow: [Schemas["RunRow"], Api.RunRow];
  Need: [Schemas["NeedView"], Api.Need];
  RunDigest: [Schemas["RunDigest"], Api.RunDigest];
  Agent: [Schemas["AgentView"], Api.Agent];
  Workflow: [Schemas["WorkflowView"], Api.Workflow];
  Settings: [Schemas["SettingList"], Api.Settings];
  SearchResult: [Schemas["SearchResult"], Api.SearchResult];
  ServerInfo: [Schemas["ServerInfo"], Api.ServerInfo];
  RunDetailHead: [Schemas["RunDetail"], Api.RunDetailHead];
  RunDetail: [Schemas["RunDetail"], Run.RunDetail];
  Queued: [Schemas["QueuedView"], Run.Queued];
  Point: [Schemas["PointView"], Run.Point];
  RewindPreview: [Schemas["RewindPlanView"], Run.RewindPreview];
  DiffList: [Schemas["DiffList"], Run.DiffList];
  Timeline: [Schemas["Timeline"], Run.Timeline];
};
type Differences = { [Name in keyof Pairs & string]: Differs<Pairs[Name][0], Pairs[Name][1], Name> }[keyof Pairs & string];

declare const differences: Differences;
export const none: never = differences;
