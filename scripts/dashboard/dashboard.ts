// What a dashboard of Grafana may hold, strictly: from its own schema (@grafana/schema), where that lets anything pass, from the
// plugin that the panel belongs to. The dashboard itself stands below as a constant of this type (check puts it there).
import type * as grafana from "@grafana/schema";
import type { FieldConfig as TimelineField, Options as TimelineOptions }
  from "@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen";
import type { Options as StatOptions } from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type { FieldConfig as SeriesField, Options as SeriesOptions }
  from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// As JSON has it: the words of an enumeration for its members.
type Json<T> = T extends string ? `${T}`
  : T extends number ? (number extends T ? T : `${T}` extends `${infer N extends number}` ? N : never)
  : T extends object ? { [K in keyof T]: Json<T[K]> }
  : T;

type Raw = Json<grafana.Dashboard>;
type Field<Custom> = Omit<Json<grafana.FieldConfig>, "custom" | "links"> & { custom?: Json<Custom> };
type Override<Custom> = {
  matcher: Json<grafana.MatcherConfig>;
  properties: Array<{ [K in keyof Field<Custom>]-?: { id: K; value: Field<Custom>[K] } }[Exclude<keyof Field<Custom>, "custom">]
    | { [K in keyof Json<Custom> & string]-?: { id: `custom.${K}`; value: Json<Custom>[K] } }[keyof Json<Custom> & string]>;
};

// A query of Prometheus: its schema is not in the package, so these are the fields of its documentation.
interface Target {
  refId: string;
  datasource: { type: "prometheus"; uid: string };
  expr: string;
  legendFormat?: string;
  instant?: boolean;
  range?: boolean;
  interval?: string;
  format?: "time_series" | "table" | "heatmap";
  exemplar?: boolean;
  hide?: boolean;
}

type Panel<Type extends string, Options, Custom> = Omit<Json<grafana.Panel>, "type" | "options" | "fieldConfig" | "targets"> & {
  type: Type;
  options: Json<Options>;
  fieldConfig: { defaults: Field<Custom>; overrides: Array<Override<Custom>> };
  targets: Array<Target>;
};

type Dashboard = Omit<Raw, "panels"> & {
  panels: Array<Panel<"stat", StatOptions, {}> | Panel<"timeseries", SeriesOptions, SeriesField>
    | Panel<"state-timeline", TimelineOptions, TimelineField>>;
};

